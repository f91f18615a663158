#include "daemon/config_suggest.h"

#include <gtest/gtest.h>

#include <string>

namespace keyferry::daemon {
namespace {

TEST(ConfigSuggest, FindsSlipsOfThePen) {
  EXPECT_EQ(nearest_option("pol"), "pool");
  EXPECT_EQ(nearest_option("pool.hugepages"), "pool.huge_pages");
  EXPECT_EQ(nearest_option("pool.Huge-Pages"), "pool.huge_pages");
  EXPECT_EQ(nearest_option("limits.max_value"), "");
  EXPECT_EQ(nearest_option("listen[].unx"), "listen[].unix");
}

TEST(ConfigSuggest, FindsTheRightNameInTheWrongSection) {
  EXPECT_EQ(nearest_option("pool_wait"), "limits.pool_wait");
  EXPECT_EQ(nearest_option("pool.threshold"), "transfer.threshold");
}

TEST(ConfigSuggest, PrefersTheSameSection) {
  EXPECT_EQ(nearest_option("transfer.lane"), "transfer.lanes");
  EXPECT_EQ(nearest_option("upstream.connection"), "upstream.connections");
}

TEST(ConfigSuggest, SaysNothingRatherThanNonsense) {
  EXPECT_EQ(nearest_option("frobnicate"), "");
  EXPECT_EQ(nearest_option(""), "");
  EXPECT_EQ(nearest_option(std::string(100000, 'x')), "");
}

}  // namespace
}  // namespace keyferry::daemon
