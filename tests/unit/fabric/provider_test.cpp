#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <stdexcept>

#include "fabric/open.h"
#include "tests/unit/fabric/fabric_fixture.h"

namespace keyferry::fabric {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct ProviderTest : testing::TestWithParam<std::string> {
  static std::string open_error(FabricOptions options) {
    options.library = GetParam();
    try {
      open_fabric(options);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }
  static bool is_version_1() { return Library::load(GetParam())->version() < FI_VERSION(2, 0); }
};
INSTANTIATE_TEST_SUITE_P(Libraries, ProviderTest, testing::ValuesIn(test::libraries()));

TEST_P(ProviderTest, AutoTakesTheSoftwareFabricWhereThereIsNoDeviceAndSaysWhy) {
  FabricOptions options = test::loopback(GetParam());
  options.provider = "auto";
  const auto fabric = open_fabric(options);
  if (fabric->traits().provider == "efa-direct") GTEST_SKIP() << "this machine has an EFA device";
  EXPECT_THAT(fabric->traits().reason, HasSubstr("efa-direct"));
  options.provider = "software";
  EXPECT_EQ(open_fabric(options)->traits().reason, "");
}

TEST_P(ProviderTest, EfaDirectWithoutADeviceOrOnAnOldLibraryIsOneMessage) {
  FabricOptions options;
  options.provider = "efa-direct";
  const std::string error = open_error(options);
  if (is_version_1()) {
    EXPECT_THAT(error,
                HasSubstr("fabric.provider is efa-direct, but efa-direct needs libfabric 2.0 or later, loaded is " +
                          GetParam()));
  } else {
    EXPECT_THAT(error, AllOf(HasSubstr("offers no provider efa-direct here"),
                             HasSubstr("fi_getinfo: No data available (errno -61)")));
  }
}

TEST_P(ProviderTest, AnUnknownProviderIsNamedWithThoseAllowed) {
  FabricOptions options;
  options.provider = "psm3";
  EXPECT_THAT(open_error(options),
              HasSubstr("fabric.provider is \"psm3\"; it must be auto, efa-direct, software or off"));
}

TEST_P(ProviderTest, R68AMissingInterfaceIsNamedWithThoseThatThisHostHas) {
  FabricOptions options = test::loopback(GetParam());
  options.interfaces = {"keyferry9"};
  const std::string error = open_error(options);
  EXPECT_THAT(error, AllOf(HasSubstr("no fabric domain named \"keyferry9\"; this host has ["), HasSubstr("lo")));
}

TEST_P(ProviderTest, TheFirstInterfaceThatExistsIsUsed) {
  FabricOptions options = test::loopback(GetParam());
  options.interfaces = {"keyferry9", "lo"};
  EXPECT_EQ(open_fabric(options)->traits().domain, "lo");
}

TEST_P(ProviderTest, TheFamilyIsThatOfTheServer) {
  FabricOptions options = test::loopback(GetParam());
  auto four = test::open_endpoint(*open_fabric(options));
  ASSERT_TRUE(four);
  EXPECT_EQ(four->address.size(), 16U);
  options.family = AF_INET6;
  if (!open_error(options).empty()) GTEST_SKIP() << open_error(options);
  auto six = test::open_endpoint(*open_fabric(options));
  ASSERT_TRUE(six);
  EXPECT_EQ(six->address.size(), 28U);
}

TEST_P(ProviderTest, TheSourceAddressIsTheOneToBindTo) {
  FabricOptions options;
  options.provider = "software";
  options.library = GetParam();
  options.bind = "127.0.0.1";
  auto endpoint = test::open_endpoint(*open_fabric(options));
  ASSERT_TRUE(endpoint);
  EXPECT_EQ(endpoint->address.substr(4, 4), std::string("\x7f\0\0\x01", 4));
}

TEST_P(ProviderTest, ASourceAddressOfAnotherHostIsRefusedAtTheStart) {
  FabricOptions options;
  options.provider = "software";
  options.bind = "203.0.113.7";
  EXPECT_THAT(open_error(options), HasSubstr("fabric.bind"));
}

}  // namespace
}  // namespace keyferry::fabric
