#include "gateway/length_table.h"

#include <gtest/gtest.h>

namespace keyferry::gateway {
namespace {

const upstream::Identity kNobody;

TEST(LengthTable, RemembersTheLastLengthAndForgets) {
  LengthTable table;
  EXPECT_FALSE(table.find(kNobody, "key"));
  table.remember(kNobody, "key", 7);
  table.remember(kNobody, "key", 8);
  EXPECT_EQ(table.find(kNobody, "key"), 8U);
  EXPECT_EQ(table.size(), 1U);
  table.forget(kNobody, "key");
  table.forget(kNobody, "key");
  EXPECT_FALSE(table.find(kNobody, "key"));
}

TEST(LengthTable, R31TheLeastRecentlyUsedGivesWay) {
  LengthTable table(3);
  table.remember(kNobody, "a", 1);
  table.remember(kNobody, "b", 2);
  table.remember(kNobody, "c", 3);
  EXPECT_TRUE(table.find(kNobody, "a"));
  table.remember(kNobody, "d", 4);
  EXPECT_EQ(table.size(), 3U);
  EXPECT_FALSE(table.find(kNobody, "b"));
  EXPECT_EQ(table.find(kNobody, "a"), 1U);
  EXPECT_EQ(table.find(kNobody, "d"), 4U);
}

TEST(LengthTable, R54EachUserAndDatabaseHasItsOwn) {
  LengthTable table;
  const upstream::Identity third{"", "", 3}, ann{"ann", "secret", 0};
  table.remember(kNobody, "key", 1);
  table.remember(third, "key", 2);
  table.remember(ann, "key", 3);
  EXPECT_EQ(table.find(kNobody, "key"), 1U);
  EXPECT_EQ(table.find(third, "key"), 2U);
  EXPECT_EQ(table.find(ann, "key"), 3U);
  table.forget(third, "key");
  EXPECT_FALSE(table.find(third, "key"));
  EXPECT_EQ(table.find(ann, "key"), 3U);
  // No name of a user and a key is another's.
  EXPECT_FALSE(table.find({"an", "", 0}, "nkey"));
}

TEST(LengthTable, ALongKeyIsNotKept) {
  LengthTable table;
  table.remember(kNobody, std::string(LengthTable::kLongestKey + 1, 'k'), 1);
  EXPECT_EQ(table.size(), 0U);
  table.remember(kNobody, std::string(LengthTable::kLongestKey, 'k'), 1);
  EXPECT_EQ(table.size(), 1U);
}

}  // namespace
}  // namespace keyferry::gateway
