#include "base/loop.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace keyferry::base {
namespace {

TEST(Loop, TasksOfOneThreadRunInTheirOrderAndNeverInsidePost) {
  Loop loop;
  std::vector<int> ran;
  for (int i = 0; i < 100; ++i) loop.post([&ran, i] { ran.push_back(i); });
  EXPECT_TRUE(ran.empty());
  loop.post([&loop] { loop.stop(); });
  loop.run("test");
  ASSERT_EQ(ran.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ran[static_cast<std::size_t>(i)], i);
}

TEST(Loop, TakesTasksFromOtherThreads) {
  Loop loop;
  int sum = 0;
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) loop.post([&sum] { ++sum; });
    loop.post([&loop] { loop.stop(); });
  });
  loop.run("test");
  other.join();
  EXPECT_EQ(sum, 1000);
}

TEST(Loop, WhatWasNeverRunIsDestroyedWithIt) {
  auto token = std::make_shared<int>(1);
  {
    Loop loop;
    loop.post([token] {});
    EXPECT_EQ(token.use_count(), 2);
  }
  EXPECT_EQ(token.use_count(), 1);
}

TEST(Timer, RunsOnceAfterItsDelay) {
  Loop loop;
  Timer timer(loop);
  int runs = 0;
  timer.start(std::chrono::milliseconds(1), [&] {
    ++runs;
    loop.stop();
  });
  loop.run("test");
  EXPECT_EQ(runs, 1);
}

TEST(Timer, ACancelledOneDoesNotRunEvenIfItWasDue) {
  Loop loop;
  Timer due(loop);
  Timer later(loop);
  bool ran = false;
  due.start(Duration{}, [&] { ran = true; });
  due.cancel();
  later.start(std::chrono::milliseconds(5), [&] { loop.stop(); });
  loop.run("test");
  EXPECT_FALSE(ran);
}

TEST(Timer, StartingAgainReplacesTheTask) {
  Loop loop;
  Timer timer(loop);
  std::string ran;
  timer.start(Duration{}, [&] { ran += "first"; });
  timer.start(std::chrono::milliseconds(1), [&] {
    ran += "second";
    loop.stop();
  });
  loop.run("test");
  EXPECT_EQ(ran, "second");
}

}  // namespace
}  // namespace keyferry::base
