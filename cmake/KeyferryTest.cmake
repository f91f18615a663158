# keyferry_unit_test(NAME SOURCES ... [LIBS ...]): one GoogleTest program, run by ctest with the label "unit".

if(KEYFERRY_TESTS)
  find_package(GTest REQUIRED)
endif()

function(keyferry_unit_test name)
  cmake_parse_arguments(arg "ASIO" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} keyferry_compile GTest::gtest GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  if(arg_ASIO)
    keyferry_use_asio(${name})
  endif()
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
  set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 600)
endfunction()
