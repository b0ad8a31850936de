# SPDX-License-Identifier: Apache-2.0
# Writes a C++ source whose functions give the bytes of files, for cmake -P.
#   OUT        the source
#   HEADER     the header that declares the functions
#   NAMESPACE  theirs
#   FILES      "FUNCTION=PATH", separated by commas
set(text "// Written by tools/cmake/embed.cmake.\n#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n")
string(REPLACE "," ";" pairs "${FILES}")
foreach(pair IN LISTS pairs)
  string(REGEX MATCH "^([^=]+)=(.+)$" _ "${pair}")
  set(function ${CMAKE_MATCH_1})
  file(READ "${CMAKE_MATCH_2}" bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  # ELF files are read in place, in units of eight bytes.
  string(APPEND text "namespace {\nalignas(8) constexpr unsigned char k_${function}[]{${bytes}};\n}\n"
    "std::span<const unsigned char> ${function}() noexcept {\n  return k_${function};\n}\n")
endforeach()
file(WRITE "${OUT}" "${text}}  // namespace ${NAMESPACE}\n")
