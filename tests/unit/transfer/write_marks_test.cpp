#include "transfer/write_marks.h"

#include <gtest/gtest.h>

#include <thread>

namespace keyferry::transfer {
namespace {

using Mark = WriteMarks::Mark;
using Args = std::vector<std::string_view>;

TEST(WriteMarks, AKeysMarkChangesItsStateAndThatOfEveryKeyIfNoKeyIsNamed) {
  WriteMarks marks({"fixed:", "model/"});
  const std::uint64_t before = marks.state("fixed:a");
  const std::uint64_t other = marks.state("model/b");
  marks.touch(marks.mark_of(Args{"fixed:a"}));
  EXPECT_NE(marks.state("fixed:a"), before);
  EXPECT_EQ(marks.state("model/b"), other);
  marks.touch(Mark::kEverything);
  EXPECT_NE(marks.state("model/b"), other);
}

TEST(WriteMarks, OnlyImmutableKeysHaveOne) {
  WriteMarks marks({"fixed:"});
  EXPECT_TRUE(marks.immutable("fixed:a"));
  EXPECT_FALSE(marks.immutable("fixed"));
  EXPECT_EQ(marks.mark_of(Args{"other", "value"}), Mark::kNothing);
  EXPECT_EQ(marks.mark_of(Args{"other", "fixed:a", "1"}), marks.mark_of(Args{"fixed:a"}));
  EXPECT_EQ(marks.mark_of(Args{"fixed:a", "fixed:b"}), Mark::kEverything);
  const std::uint64_t before = marks.state("fixed:a");
  marks.touch(Mark::kNothing);
  EXPECT_EQ(marks.state("fixed:a"), before);
}

TEST(WriteMarks, WithoutPrefixesNothingIsImmutable) {
  EXPECT_FALSE(WriteMarks({}).any_immutable());
  EXPECT_FALSE(WriteMarks({}).immutable(""));
  EXPECT_TRUE(WriteMarks({""}).immutable("any")) << "the empty prefix is every key's";
}

TEST(WriteMarks, NoTouchOfSeveralThreadsIsLost) {
  WriteMarks marks({"fixed:"});
  const std::uint64_t before = marks.state("fixed:a");
  const Mark mark = marks.mark_of(Args{"fixed:a"});
  std::vector<std::thread> workers;
  for (int i = 0; i < 4; ++i) {
    workers.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) marks.touch(mark);
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(marks.state("fixed:a"), before + 4000);
}

}  // namespace
}  // namespace keyferry::transfer
