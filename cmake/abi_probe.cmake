# SPDX-License-Identifier: Apache-2.0
#
# abi_probe prints the ABI of berth.h as the compiler sees it; AbiDriftTest compares that with the bindings. Each
# abi_probe_<mutant> prints the ABI of a header with one line changed, so that the test can show that it would notice.

set(BERTH_ABI_LIST_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/abi_list.cmake)

# NAME: the executable; INCLUDE: the folder that holds berth/berth.h
function(berth_abi_probe NAME INCLUDE)
  set(list ${CMAKE_CURRENT_BINARY_DIR}/${NAME}.dir/abi_list.inc)
  add_custom_command(
    OUTPUT ${list}
    COMMAND ${CMAKE_COMMAND} -DHEADER=${INCLUDE}/berth/berth.h -DOUTPUT=${list} -P ${BERTH_ABI_LIST_SCRIPT}
    DEPENDS ${INCLUDE}/berth/berth.h ${BERTH_ABI_LIST_SCRIPT}
    VERBATIM)
  add_executable(${NAME} test/abi_probe.cpp ${list})
  target_include_directories(${NAME} PRIVATE ${INCLUDE} ${CMAKE_CURRENT_BINARY_DIR}/${NAME}.dir)
  target_compile_options(${NAME} PRIVATE -Wall -Wextra -Werror -O0)
endfunction()

# A copy of the header in which FROM, which must stand there once, is TO.
function(berth_abi_mutant NAME FROM TO)
  file(READ ${BERTH_HEADER} text)
  string(FIND "${text}" "${FROM}" first)
  string(FIND "${text}" "${FROM}" last REVERSE)
  if(first EQUAL -1 OR NOT first EQUAL last)
    message(FATAL_ERROR "ABI mutant ${NAME}: '${FROM}' must stand exactly once in ${BERTH_HEADER}")
  endif()
  string(REPLACE "${FROM}" "${TO}" text "${text}")
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/abi_mutants/${NAME})
  file(CONFIGURE OUTPUT ${folder}/berth/berth.h CONTENT "${text}" @ONLY)
  berth_abi_probe(abi_probe_${NAME} ${folder})
endfunction()

berth_abi_probe(abi_probe ${CMAKE_CURRENT_SOURCE_DIR}/include)
berth_abi_mutant(field_type "int32_t seat;" "int64_t seat;")
berth_abi_mutant(field_name "int32_t seat;" "int32_t chair;")
berth_abi_mutant(field_length "deferred[16];     /* by" "deferred[12];     /* by")
berth_abi_mutant(field_extra "int32_t seat;" "int32_t seat; int32_t stool;")
berth_abi_mutant(parameter "const uint64_t *ids, int32_t n, uint64_t *handles," "const uint64_t *ids, int64_t n, uint64_t *handles,")
berth_abi_mutant(result "int32_t berth_abi_version(void)" "int64_t berth_abi_version(void)")
berth_abi_mutant(constant "BERTH_E_STALE = 5" "BERTH_E_STALE = 15")
berth_abi_mutant(function_missing "int32_t berth_core_settle(berth_core_t core)" "int32_t berth_core_finish(berth_core_t core)")
