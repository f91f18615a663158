#include "fabric/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/unit/fabric/fabric_fixture.h"

namespace keyferry::fabric {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string load_error(const std::string& file) {
  try {
    Library::load(file);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(Library, LoadsEachOfTheTestsLibrariesAndTellsFileAndVersion) {
  for (const std::string& file : test::libraries()) {
    const auto library = Library::load(file);
    EXPECT_EQ(library->name(), file + " (" + std::to_string(FI_MAJOR(library->version())) + "." +
                                   std::to_string(FI_MINOR(library->version())) + ")");
    EXPECT_LE(library->api_version(), library->version());
    const Info info(library->dupinfo(nullptr), InfoDeleter{library});
    EXPECT_NE(info->domain_attr, nullptr);
    EXPECT_EQ(library->error_text("fi_getinfo", -61), "fi_getinfo: No data available (errno -61)");
  }
}

TEST(Library, R86AMissingFileIsNamed) {
  EXPECT_THAT(load_error("/nonexistent/libfabric.so.1"),
              AllOf(HasSubstr("/nonexistent/libfabric.so.1: "), HasSubstr("fabric.library")));
}

TEST(Library, R86AConfiguredFileIsTheOnlyOneTried) {
  EXPECT_THAT(load_error("/nonexistent/libfabric.so.1"), testing::Not(HasSubstr("/opt/amazon")));
}

TEST(Library, R86AWrongVersionIsNamedWithThoseAccepted) {
  EXPECT_THAT(
      load_error(FAKE_LIBFABRIC_1_16),
      AllOf(HasSubstr(FAKE_LIBFABRIC_1_16), HasSubstr("it reports version 1.16"), HasSubstr("from 1.17 to below 3.0")));
  EXPECT_THAT(load_error(FAKE_LIBFABRIC_3_0), HasSubstr("it reports version 3.0"));
}

TEST(Library, R86ALibraryWithoutTheSymbolVersionIsNamed) {
  EXPECT_THAT(load_error(FAKE_LIBFABRIC_1_17), HasSubstr("it has no fi_getinfo of version FABRIC_1."));
}

TEST(Library, AFileThatIsNoLibraryIsAnErrorNotACrash) {
  EXPECT_THAT(load_error("/etc/hostname"), HasSubstr("/etc/hostname: "));
}

}  // namespace
}  // namespace keyferry::fabric
