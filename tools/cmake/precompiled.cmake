# SPDX-License-Identifier: Apache-2.0
# Precompiled headers: half of the time of a file of ours is the standard library's, GoogleTest's and nlohmann-json's.
# One for each set of flags, because a compiler compiles what includes it with those of the header: what packets pass,
# the rest of what is shipped, and the tests' own code. Only headers of others are in them.

set(_headers
  <algorithm> <array> <atomic> <bit> <cassert> <cerrno> <charconv> <chrono> <cmath> <cstddef> <cstdint> <cstdio>
  <cstdlib> <cstring> <deque> <filesystem> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <random>
  <set> <span> <sstream> <string> <string_view> <thread> <tuple> <unordered_map> <utility> <variant> <vector>
  <immintrin.h> <nlohmann/json.hpp>)

# _weft_precompile(name HEADERS ... LIBS ...): the precompiled header `name`.
function(_weft_precompile name)
  cmake_parse_arguments(ARG "" "" "HEADERS;LIBS" ${ARGN})
  add_library(${name} OBJECT ${PROJECT_SOURCE_DIR}/tools/cmake/precompiled.cc)
  target_link_libraries(${name} PRIVATE weft_options nlohmann_json::nlohmann_json ${ARG_LIBS})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
  # Whoever depends on a library of objects does not wait for them.
  set(made gch)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    set(made pch)
  endif()
  add_custom_target(${name}_made DEPENDS ${PROJECT_BINARY_DIR}/CMakeFiles/${name}.dir/cmake_pch.hxx.${made})
endfunction()

if(WEFT_PCH)
  _weft_precompile(weft_pch HEADERS ${_headers})
  _weft_precompile(weft_pch_control HEADERS ${_headers})
  weft_control_flags(weft_pch_control)
  if(WEFT_TESTS)
    find_package(GTest REQUIRED)
    _weft_precompile(weft_pch_tests HEADERS ${_headers} <gmock/gmock.h> <gtest/gtest.h>
      LIBS GTest::gmock)
    weft_test_flags(weft_pch_tests)
  endif()
endif()

# weft_precompiled(target header): the target's sources begin with a precompiled header. Compilers take it only when it
# comes first, and only with the flags it was made with: a target for shared libraries goes without.
function(weft_precompiled target header)
  if(NOT WEFT_PCH)
    return()
  endif()
  set(include "SHELL:-include CMakeFiles/${header}.dir/cmake_pch.hxx")
  target_compile_options(${target} BEFORE PRIVATE
    "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<BOOL:$<TARGET_PROPERTY:POSITION_INDEPENDENT_CODE>>>>:${include}>")
  add_dependencies(${target} ${header}_made)
endfunction()
