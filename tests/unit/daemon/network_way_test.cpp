#include "daemon/network_way.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace keyferry::daemon {
namespace {

TEST(NetworkWay, ToOneselfLeadsOverLoopback) {
  const NetworkWay way = way_to({"127.0.0.1", 6379});
  EXPECT_EQ(way.address, "127.0.0.1");
  EXPECT_EQ(way.interface, "lo");
}

TEST(NetworkWay, ANameThatIsNoneSaysSo) {
  const NetworkWay way = way_to({"no such name", 1});
  EXPECT_EQ(way.address, "");
  EXPECT_THAT(way.problem, ::testing::HasSubstr("no such name: "));
}

}  // namespace
}  // namespace keyferry::daemon
