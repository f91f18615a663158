#include "gateway/command_effects.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace keyferry::gateway {
namespace {

using Mark = transfer::WriteMarks::Mark;
using Args = std::vector<std::string_view>;

TEST(CommandEffects, WhatIsNotKnownToBeHarmlessMayChangeAnything) {
  for (const char* name : {"GET", "get", "BLOB.TCP_GET", "ACL", "ZUNION", "GEORADIUSBYMEMBER_RO", "PING"})
    EXPECT_EQ(effect_of(name), Effect::kReads) << name;
  for (const char* name : {"SET", "del", "APPEND", "BLOB.TCP_SET", "XGROUP", "ZUNIONSTORE", "BLMOVE", "EXPIRE"})
    EXPECT_EQ(effect_of(name), Effect::kNamedKeys) << name;
  for (const char* name : {"EVAL", "EVALSHA", "FCALL", "EXEC", "FLUSHALL", "flushdb", "SWAPDB", "CLIENT", "DEBUG",
                           "SOME.MODULE", "", "A", "ZZZ", "AN.UNREASONABLY.LONG.NAME.OF.A.COMMAND"})
    EXPECT_EQ(effect_of(name), Effect::kAnything) << name;
}

TEST(CommandEffects, ACommandMarksWhatItMayWrite) {
  const transfer::WriteMarks marks({"fixed:"});
  const Mark key = marks.mark_of(Args{"fixed:key"});
  EXPECT_EQ(write_mark(marks, Args{"GET", "fixed:key"}), Mark::kNothing);
  EXPECT_EQ(write_mark(marks, Args{"SET", "other", "1"}), Mark::kNothing);
  EXPECT_EQ(write_mark(marks, Args{"set", "fixed:key", "1"}), key);
  EXPECT_EQ(write_mark(marks, Args{"RENAME", "other", "fixed:key"}), key);
  EXPECT_EQ(write_mark(marks, Args{"MSET", "fixed:a", "1", "fixed:b", "2"}), Mark::kEverything);
  EXPECT_EQ(write_mark(marks, Args{"EXEC"}), Mark::kEverything);
  EXPECT_EQ(write_mark(marks, Args{"MSET", "other"}, false), Mark::kEverything) << "the rest may name any key";
  EXPECT_EQ(write_mark(marks, Args{"DEL"}, false), Mark::kEverything);
  EXPECT_EQ(write_mark(marks, Args{"BLOB.TCP_SET", "fixed:key"}, false), key);
  EXPECT_EQ(write_mark(marks, Args{"set", "other"}, false), Mark::kNothing);
  EXPECT_EQ(write_mark(marks, Args{"SET"}, false), Mark::kEverything) << "the key itself is large";
}

TEST(CommandEffects, WithoutImmutableKeysNothingIsMarked) {
  const transfer::WriteMarks marks({});
  EXPECT_EQ(write_mark(marks, Args{"FLUSHALL"}), Mark::kNothing);
}

}  // namespace
}  // namespace keyferry::gateway
