# SPDX-License-Identifier: Apache-2.0
#
# Lists what berth.h declares, as macro calls for native/test/abi_probe.cpp. Only names are read here: what they are,
# the compiler says. AbiDriftTest checks that no name of the header is missing.
#   cmake -DHEADER=berth.h -DOUTPUT=abi_list.inc -P abi_list.cmake
file(READ ${HEADER} text)
string(REGEX REPLACE "/\\*[^*]*\\*+([^/*][^*]*\\*+)*/" "" text "${text}")
string(REPLACE ";" "@" text "${text}") # a semicolon separates the elements of a CMake list
set(list "")

string(REGEX MATCHALL "BERTH_API[^@#]*@" functions "${text}")
foreach(function IN LISTS functions)
  string(REGEX MATCH "([a-z0-9_]+)\\(" unused "${function}")
  string(APPEND list "BERTH_FUNCTION(${CMAKE_MATCH_1})\n")
endforeach()

string(REGEX MATCHALL "typedef struct [a-z0-9_]+ {[^}]*}" structs "${text}")
foreach(struct IN LISTS structs)
  string(REGEX MATCH "struct ([a-z0-9_]+)" unused "${struct}")
  set(name ${CMAKE_MATCH_1})
  string(APPEND list "BERTH_STRUCT(${name})\n")
  string(REGEX MATCHALL "[a-z0-9_]+(\\[[0-9]+\\])?@" fields "${struct}")
  foreach(field IN LISTS fields)
    string(REGEX REPLACE "(\\[[0-9]+\\])?@" "" field "${field}")
    string(APPEND list "BERTH_FIELD(${name}, ${field})\n")
  endforeach()
endforeach()

string(REGEX MATCHALL "BERTH_[A-Z0-9_]+ =|#define BERTH_[A-Z0-9_]+ [0-9]" constants "${text}")
foreach(constant IN LISTS constants)
  string(REGEX MATCH "BERTH_[A-Z0-9_]+" constant "${constant}")
  string(APPEND list "BERTH_CONSTANT(${constant})\n")
endforeach()

file(WRITE ${OUTPUT} "${list}")
