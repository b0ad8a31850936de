# SPDX-License-Identifier: Apache-2.0
# Build rules of every weft target: language, warnings, third-party packages, and the layer rules.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O3 -g1")
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)

find_program(CCACHE ccache)
if(CCACHE)
  # Paths count from the source folder, so that clones in other folders find each other's objects.
  # ccache takes a precompiled header for the files it was made of only when it is told to.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()

# GNU ld takes 2 to 4 seconds for a program of ours, and there are hundreds.
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(DPDK REQUIRED IMPORTED_TARGET libdpdk>=22.11)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(SYSTEMD REQUIRED IMPORTED_TARGET libsystemd)
pkg_check_modules(GRPC REQUIRED IMPORTED_TARGET grpc++ protobuf)
find_program(PROTOC protoc REQUIRED)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(prometheus-cpp REQUIRED)

# libdpdk.pc asks for -march=corei7. The baseline is ours to choose: x86-64-v2 has what DPDK's headers need (SSE4.2),
# and faster code is chosen at run time by functions with target attributes.
get_target_property(_dpdk_flags PkgConfig::DPDK INTERFACE_COMPILE_OPTIONS)
if(_dpdk_flags)
  list(FILTER _dpdk_flags EXCLUDE REGEX "^-march=")
  set_target_properties(PkgConfig::DPDK PROPERTIES INTERFACE_COMPILE_OPTIONS "${_dpdk_flags}")
endif()

option(WEFT_PCH "Precompile the headers of others. Without it, a file that lacks an include does not compile" ON)

add_library(weft_options INTERFACE)
target_include_directories(weft_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(weft_options INTERFACE -march=x86-64-v2 -Wall -Wextra -Werror -fno-strict-aliasing
  $<$<CXX_COMPILER_ID:GNU>:-Wshadow=local>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlapping and endless copies in std::string that are not there (GCC bug 105329). Of a precompiled
  # header it does not know that it is a system's.
  target_compile_options(weft_options INTERFACE -Wno-restrict
    $<$<BOOL:${WEFT_PCH}>:-Wno-stringop-overflow> $<$<BOOL:${WEFT_PCH}>:-Wno-array-bounds>)
endif()
target_compile_definitions(weft_options INTERFACE WEFT_VERSION="${PROJECT_VERSION}")
if(WEFT_SANITIZE)
  # Instrumented code takes the compiler twice as long with more optimisation.
  target_compile_options(weft_options INTERFACE
    -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
    $<$<CXX_COMPILER_ID:Clang>:-fsanitize=fuzzer-no-link>
    # GCC's data-flow warnings see what the instrumentation adds; the plain build has them as errors.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-array-bounds;-Wno-maybe-uninitialized>)
  target_link_options(weft_options INTERFACE -fsanitize=address,undefined)
endif()
if(WEFT_TSAN)
  # It does not know fences. Of ours, Doorbell's only decides whether a sleeper is woken at once.
  target_compile_options(weft_options INTERFACE -O1 -fsanitize=thread -fno-omit-frame-pointer
    $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan;-Wno-stringop-overflow;-Wno-stringop-overread>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-maybe-uninitialized>)
  target_link_options(weft_options INTERFACE -fsanitize=thread)
endif()

# weft_test_flags(target): flags of the tests' own code, which takes the compiler half as long with -O1 as with -O3, and
# when it is instrumented half as long again with -O0. What they test is optimised as it is shipped. The coverage that
# fuzzers go by is that of what they link.
function(weft_test_flags target)
  if(WEFT_SANITIZE)
    target_link_libraries(${target} PRIVATE weft_test_options)
  else()
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()
# After the flags of weft_options.
add_library(weft_plain_options INTERFACE)
target_compile_options(weft_plain_options INTERFACE -O0)
add_library(weft_test_options INTERFACE)
target_compile_options(weft_test_options INTERFACE
  -O0 $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=fuzzer-no-link>)

# weft_control_flags(target): flags of what no packet passes: configuration, the control service, reports. It is a third
# of a build, and takes the compiler a quarter less time with -O1 than with -O3, and when it is instrumented a quarter
# of the time with -O0.
function(weft_control_flags target)
  if(WEFT_SANITIZE)
    target_link_libraries(${target} PRIVATE weft_plain_options)
  elseif(NOT WEFT_TSAN)
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

include(precompiled)

# _weft_flags(target CONTROL): the flags and the precompiled header of what is shipped.
function(_weft_flags target control)
  if(control)
    weft_control_flags(${target})
    weft_precompiled(${target} weft_pch_control)
  else()
    weft_precompiled(${target} weft_pch)
  endif()
endfunction()

# weft_library(name [CONTROL] SOURCES ... [MUTATED files] [PUBLIC libs] [PRIVATE libs]): one layer of the tree. The
# layers are the targets: a target that does not list another cannot link it, and tests/layers checks the includes.
# CONTROL: no packet passes it. MUTATED are sources too: tests link a changed copy of one of them instead of it, so each
# has an object of its own.
function(weft_library name)
  cmake_parse_arguments(ARG "CONTROL" "" "SOURCES;MUTATED;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES} ${ARG_MUTATED})
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${WEFT_UNITY} UNITY_BUILD_BATCH_SIZE 16)
  set_source_files_properties(${ARG_MUTATED} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_link_libraries(${name} PUBLIC weft_options ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  _weft_flags(${name} ${ARG_CONTROL})
endfunction()

# weft_proto(name FILE file): the messages and services of a .proto file of the source folder. Without weft_options:
# generated code does not keep our warnings.
function(weft_proto name)
  cmake_parse_arguments(ARG "" "FILE" "" ${ARGN})
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  get_filename_component(stem ${ARG_FILE} NAME_WE)
  set(root ${CMAKE_CURRENT_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${root})
  set(generated ${root}/${folder}/${stem})
  add_custom_command(
    OUTPUT ${generated}.pb.cc ${generated}.pb.h ${generated}.grpc.pb.cc ${generated}.grpc.pb.h
    COMMAND ${PROTOC} -I ${PROJECT_SOURCE_DIR} --cpp_out=${root} --grpc_out=${root}
            --plugin=protoc-gen-grpc=${GRPC_CPP_PLUGIN} ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_FILE}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_FILE}
    COMMENT "Generating ${folder}/${ARG_FILE}"
    VERBATIM)
  add_library(${name} STATIC ${generated}.pb.cc ${generated}.grpc.pb.cc)
  target_include_directories(${name} SYSTEM PUBLIC ${root})
  target_link_libraries(${name} PUBLIC PkgConfig::GRPC)
endfunction()

# weft_binary(name [CONTROL] SOURCES ... LIBS ...): a program in build/bin.
function(weft_binary name)
  cmake_parse_arguments(ARG "CONTROL" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${WEFT_UNITY} UNITY_BUILD_BATCH_SIZE 16)
  target_link_libraries(${name} PRIVATE weft_options ${ARG_LIBS})
  _weft_flags(${name} ${ARG_CONTROL})
endfunction()

# Programs that `all` leaves out, because what changes one protocol unit or its tests needs few of them.
if(WEFT_TESTS)
  # What `ctest -L unit` runs. tools/check builds them with sanitizers, and only --full and --fast as they are shipped.
  add_custom_target(unit_tests)
  # What `ctest -L tsan` runs: programs with threads that share memory.
  add_custom_target(tsan_tests)
  # What `ctest -L mutant` runs: two thirds of the programs.
  add_custom_target(mutants)
endif()

# weft_test_objects(name SOURCES ... LIBS ...): sources that several tests have, compiled once, where one of these tests
# is built.
function(weft_test_objects name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE weft_options ${ARG_LIBS} GTest::gmock)
  if(WEFT_SANITIZE)
    weft_test_flags(${name})
    weft_precompiled(${name} weft_pch_tests)
  else()
    weft_precompiled(${name} weft_pch)
  endif()
endfunction()

# weft_test(name [OBJECTS name] SOURCES ... [APART ...] LIBS ... [LABELS ...] [TIMEOUT s] [DPDK]): a GoogleTest program
# registered with CTest. APART are sources too, with names that others of the program have: each is compiled alone. DPDK
# gives it an EAL without hugepages or devices (tests/support/eal_main.cc supplies main). Its kind is the label that
# leads to it: `mutant` for one that tests a changed copy of the code, with `_mutant_` in its name; `exhaustive` if
# LABELS says so: too slow under sanitizers, and the units that it searches have tests of their own there; else `unit`.
function(weft_test name)
  cmake_parse_arguments(ARG "DPDK" "OBJECTS;TIMEOUT" "SOURCES;APART;LIBS;LABELS" ${ARGN})
  if(ARG_OBJECTS)
    list(APPEND ARG_SOURCES $<TARGET_OBJECTS:${ARG_OBJECTS}>)
  endif()
  add_executable(${name} ${ARG_SOURCES} ${ARG_APART})
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${WEFT_UNITY} UNITY_BUILD_BATCH_SIZE 8)
  set_source_files_properties(${ARG_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set(built_by "")
  if(name MATCHES "_mutant_")
    list(APPEND ARG_LABELS mutant)
    set(built_by mutants)
  elseif(NOT "exhaustive" IN_LIST ARG_LABELS)
    list(APPEND ARG_LABELS unit)
    set(built_by unit_tests)
  endif()
  if(built_by)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    add_dependencies(${built_by} ${name})
  endif()
  if(ARG_DPDK)
    target_link_libraries(${name} PRIVATE weft_test_eal)
  else()
    target_link_libraries(${name} PRIVATE GTest::gmock_main)
  endif()
  target_link_libraries(${name} PRIVATE weft_options ${ARG_LIBS} GTest::gmock)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT "exhaustive" IN_LIST ARG_LABELS)
    weft_test_flags(${name})
    weft_precompiled(${name} weft_pch_tests)
  else()
    weft_precompiled(${name} weft_pch)
  endif()
  if("tsan" IN_LIST ARG_LABELS)
    add_dependencies(tsan_tests ${name})
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(WEFT_SANITIZE OR WEFT_TSAN)
    # Instrumented code is several times slower.
    math(EXPR ARG_TIMEOUT "4 * ${ARG_TIMEOUT}")
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()

# weft_mutated(out AS name FILE file FROM text TO text): a copy of a file of the project with one expression exchanged,
# for a test that has to notice. `out` becomes its path, below a folder `name` that holds it under its own path, so that
# a copy of a header can be found before the header.
function(weft_mutated out)
  cmake_parse_arguments(ARG "" "AS;FILE;FROM;TO" "" ${ARGN})
  set(source ${PROJECT_SOURCE_DIR}/${ARG_FILE})
  set(mutate ${PROJECT_SOURCE_DIR}/tests/support/mutate.py)
  set(mutated ${CMAKE_CURRENT_BINARY_DIR}/mutants/${ARG_AS}/${ARG_FILE})
  add_custom_command(OUTPUT ${mutated} COMMAND ${mutate} ${source} ${mutated} ${ARG_FROM} ${ARG_TO}
    DEPENDS ${source} ${mutate} VERBATIM)
  set(${out} ${mutated} PARENT_SCOPE)
endfunction()

# weft_explored_mutant(unit what FILE file FROM text TO text): the exhaustive test of a unit, whose objects are
# `unit`_exhaustive, with one expression of a file of the project exchanged, which it has to notice.
function(weft_explored_mutant unit what)
  cmake_parse_arguments(ARG "" "FILE;FROM;TO" "" ${ARGN})
  weft_mutated(mutated AS ${unit}_${what} FILE ${ARG_FILE} FROM ${ARG_FROM} TO ${ARG_TO})
  get_target_property(libs ${unit}_exhaustive LINK_LIBRARIES)
  set(name ${unit}_mutant_${what})
  weft_test(${name} OBJECTS ${unit}_exhaustive SOURCES ${mutated} LIBS ${libs} LABELS exhaustive TIMEOUT 1200)
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "WEFT_EXPECT_VIOLATION=1")
endfunction()
