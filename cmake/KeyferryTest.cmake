# keyferry_unit_test(NAME SOURCES ... [LIBS ...]): one GoogleTest program, run by ctest with the label "unit".

if(KEYFERRY_TESTS)
  find_package(GTest REQUIRED)
endif()

# The tests' own precompiled header: GoogleTest is as slow to parse as Boost.Asio.
function(keyferry_use_test_pch name)
  if(NOT TARGET keyferry_test_pch)
    file(WRITE ${CMAKE_BINARY_DIR}/keyferry_test_pch.cpp "")
    add_library(keyferry_test_pch STATIC ${CMAKE_BINARY_DIR}/keyferry_test_pch.cpp)
    target_link_libraries(keyferry_test_pch PRIVATE keyferry_compile keyferry_asio GTest::gtest GTest::gmock)
    target_precompile_headers(keyferry_test_pch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/keyferry_test_pch.h)
  endif()
  target_precompile_headers(${name} REUSE_FROM keyferry_test_pch)
endfunction()

function(keyferry_unit_test name)
  # ASIO (it includes Boost.Asio) makes no difference here: all tests share one precompiled header.
  cmake_parse_arguments(arg "ASIO" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} keyferry_compile keyferry_asio GTest::gtest GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  if(KEYFERRY_PCH)
    keyferry_use_test_pch(${name})
  endif()
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
  set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 600)
endfunction()
