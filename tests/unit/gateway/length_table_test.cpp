#include "gateway/length_table.h"

#include <gtest/gtest.h>

namespace keyferry::gateway {
namespace {

TEST(LengthTable, RemembersTheLastLengthAndForgets) {
  LengthTable table;
  EXPECT_FALSE(table.find("key"));
  table.remember("key", 7);
  table.remember("key", 8);
  EXPECT_EQ(table.find("key"), 8U);
  EXPECT_EQ(table.size(), 1U);
  table.forget("key");
  table.forget("key");
  EXPECT_FALSE(table.find("key"));
}

TEST(LengthTable, R31TheLeastRecentlyUsedGivesWay) {
  LengthTable table(3);
  table.remember("a", 1);
  table.remember("b", 2);
  table.remember("c", 3);
  EXPECT_TRUE(table.find("a"));
  table.remember("d", 4);
  EXPECT_EQ(table.size(), 3U);
  EXPECT_FALSE(table.find("b"));
  EXPECT_EQ(table.find("a"), 1U);
  EXPECT_EQ(table.find("d"), 4U);
}

TEST(LengthTable, ALongKeyIsNotKept) {
  LengthTable table;
  table.remember(std::string(LengthTable::kLongestKey + 1, 'k'), 1);
  EXPECT_EQ(table.size(), 0U);
  table.remember(std::string(LengthTable::kLongestKey, 'k'), 1);
  EXPECT_EQ(table.size(), 1U);
}

}  // namespace
}  // namespace keyferry::gateway
