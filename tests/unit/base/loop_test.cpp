#include "base/loop.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
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

TEST(Loop, ManyThreadsPostAtOnceAndNoTaskIsLostOrOutOfItsOrder) {
  constexpr int kThreads = 4, kTasks = 5000;
  Loop loop;
  std::array<int, kThreads> last{};
  int ended = 0;
  std::vector<std::thread> others;
  for (std::size_t number = 0; number < kThreads; ++number) {
    others.emplace_back([&, number] {
      for (int i = 1; i <= kTasks; ++i)
        loop.post([&last, number, i] { last[number] = last[number] == i - 1 ? i : -1; });
      loop.post([&] {
        if (++ended == kThreads) loop.stop();
      });
    });
  }
  loop.run("test");
  for (std::thread& other : others) other.join();
  for (const int each : last) EXPECT_EQ(each, kTasks);
}

TEST(Loop, WhatIsPostedBehindAStopIsDestroyedUnrun) {
  auto token = std::make_shared<int>(1);
  int ran = 0;
  {
    Loop loop;
    loop.post([&] { loop.stop(); });
    loop.post([&ran, token] { ++ran; });
    loop.run("test");
    loop.post([&ran, token] { ++ran; });
    EXPECT_EQ(token.use_count(), 3);
  }
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(token.use_count(), 1);
}

struct ManualClock final : Clock {
  TimePoint time{};
  TimePoint now() const override { return time; }
};

/// A loop whose tasks note themselves, and take no time unless they say so.
struct NotedLoop {
  ManualClock clock;
  Loop loop{clock};
  std::string ran;

  void note(char name, Duration took = {}) {
    ran += name;
    clock.time += took;
  }
  void post(char name, Duration took = {}) {
    loop.post([this, name, took] { note(name, took); });
  }
  void post_behind(char name, Duration took = {}) {
    loop.post_behind([this, name, took] { note(name, took); });
  }
  /// `first` runs on the loop, which ends behind what that has posted behind and what those have.
  std::string run(Task first) {
    loop.post(std::move(first));
    loop.post(
        [this] { loop.post_behind([this] { loop.post_behind([this] { loop.post([this] { loop.stop(); }); }); }); });
    loop.run("test");
    return ran;
  }
};

constexpr Duration kShort = std::chrono::microseconds(1), kLong = std::chrono::milliseconds(1);

TEST(Loop, WhatIsPostedBehindRunsInItsOrderBehindWhatIsReady) {
  NotedLoop noted;
  EXPECT_EQ(noted.run([&] {
    for (const char name : {'1', '2', '3'}) noted.post(name, kShort);
    for (const char name : {'a', 'b', 'c'}) noted.post_behind(name, kLong);
  }),
            "123abc");
}

TEST(Loop, WhatBecomesReadyDoesNotWaitForAllThatIsBehind) {
  NotedLoop noted;
  EXPECT_EQ(noted.run([&] {
    noted.loop.post_behind([&] {
      noted.note('a', kLong);
      noted.post('1', kShort);
    });
    for (const char name : {'b', 'c'}) noted.post_behind(name, kLong);
  }),
            "a1bc");
}

TEST(Loop, WhatIsBehindHasAFifthOfABusyLoopsTime) {
  NotedLoop noted;
  EXPECT_EQ(noted.run([&] {
    for (const char name : {'a', 'b', 'c', 'd', 'e', 'f'}) noted.post_behind(name, kLong);
    noted.note('1', 16 * kLong);
    noted.post('2', kShort);
  }),
            "1abcd2ef");
}

TEST(Loop, WhatIsBehindAndPostsBehindLosesNothing) {
  NotedLoop noted;
  EXPECT_EQ(noted.run([&] {
    noted.loop.post_behind([&] {
      noted.note('a');
      noted.post_behind('b');
    });
    noted.clock.time += kLong;
  }),
            "ab");
}

TEST(Loop, AStopKeepsWhatIsBehindUntilItIsDestroyed) {
  auto token = std::make_shared<int>(1);
  int ran = 0;
  {
    Loop loop;
    loop.post_behind([&] {
      ++ran;
      loop.stop();
    });
    loop.post_behind([&ran, token] { ++ran; });
    loop.run("test");
    EXPECT_EQ(ran, 1);
    EXPECT_EQ(token.use_count(), 2);
  }
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(token.use_count(), 1);
}

TEST(Loop, WhatATaskPostsWhenItIsDestroyedUnrunIsDestroyedToo) {
  auto token = std::make_shared<int>(1);
  struct Poster {
    Loop* loop;
    std::shared_ptr<int> token;
    Poster(Loop* to, std::shared_ptr<int> what) : loop(to), token(std::move(what)) {}
    Poster(Poster&&) = default;
    ~Poster() {
      if (!token) return;
      loop->post([kept = token] {});
      loop->post_behind([kept = token] {});
    }
    void operator()() const {}
  };
  {
    Loop loop;
    loop.post(Poster(&loop, token));
    loop.post_behind(Poster(&loop, token));
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
