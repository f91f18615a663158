# Libraries of others (design: parts we do not write), each as one target.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED COMPONENTS core)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(SYSTEMD REQUIRED IMPORTED_TARGET libsystemd)
if(KEYFERRY_FABRIC)
  # Headers only: the library itself is loaded at run time.
  pkg_check_modules(LIBFABRIC REQUIRED libfabric)
endif()

add_library(keyferry_asio INTERFACE)
target_link_libraries(keyferry_asio INTERFACE Boost::headers OpenSSL::SSL OpenSSL::Crypto Threads::Threads)
target_compile_definitions(keyferry_asio INTERFACE BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_DISABLE_BOOST_COROUTINE)
