# Compiler settings that every target shares, and the precompiled header.

find_program(KEYFERRY_CCACHE ccache)
if(KEYFERRY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The precompiled header is only a cache hit when ccache is told that its time stamp does not matter; another clone's objects are hits when
  # the tree's own path is left out of the hash.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${KEYFERRY_CCACHE})
endif()

# One kind of code everywhere, so that libraries and programs share the precompiled header (CMake's own switch would tell them apart).
add_compile_options(-fPIC)

add_library(keyferry_compile INTERFACE)
target_compile_options(keyferry_compile INTERFACE -Wall -Wextra -Wconversion -Wshadow -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports members of moved-from std::variant / std::optional as maybe uninitialised when it inlines deeply.
  # It also sees std::string's operator+ write beyond objects that it does not write to.
  target_compile_options(keyferry_compile INTERFACE -Wno-maybe-uninitialized -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow
    -Wno-stringop-overread)
  if(KEYFERRY_CCACHE)
    target_compile_options(keyferry_compile INTERFACE -fpch-preprocess)
  endif()
endif()
target_include_directories(keyferry_compile INTERFACE ${PROJECT_SOURCE_DIR}/lib)
target_compile_definitions(keyferry_compile INTERFACE KEYFERRY_VERSION="${PROJECT_VERSION}" $<$<CONFIG:Debug>:KEYFERRY_DEBUG>)
if(KEYFERRY_FABRIC)
  target_compile_definitions(keyferry_compile INTERFACE KEYFERRY_WITH_FABRIC)
endif()

if(KEYFERRY_SANITIZE)
  add_compile_options(-fsanitize=${KEYFERRY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${KEYFERRY_SANITIZE})
  if(KEYFERRY_SANITIZE STREQUAL "thread")
    # GCC warns that TSan does not model atomic_thread_fence, which only Boost uses here.
    add_compile_options(-Wno-tsan)
  endif()
endif()

# keyferry_library(NAME SOURCES... [LIBS ...] [ASIO]): one lib/ folder. ASIO: it includes Boost.Asio and takes the shared precompiled header.
function(keyferry_library name)
  cmake_parse_arguments(arg "ASIO" "" "SOURCES;LIBS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC ${arg_LIBS} PRIVATE keyferry_compile)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/lib)
  if(arg_ASIO)
    keyferry_use_asio(${name})
  endif()
endfunction()

# Gives a target Boost.Asio with OpenSSL and, once per build, the precompiled header made for it.
function(keyferry_use_asio name)
  target_link_libraries(${name} PRIVATE keyferry_asio)
  if(KEYFERRY_PCH)
    if(NOT TARGET keyferry_pch)
      file(WRITE ${CMAKE_BINARY_DIR}/keyferry_pch.cpp "")
      add_library(keyferry_pch STATIC ${CMAKE_BINARY_DIR}/keyferry_pch.cpp)
      target_link_libraries(keyferry_pch PRIVATE keyferry_compile keyferry_asio)
      target_precompile_headers(keyferry_pch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/keyferry_pch.h)
    endif()
    target_precompile_headers(${name} REUSE_FROM keyferry_pch)
  endif()
endfunction()
