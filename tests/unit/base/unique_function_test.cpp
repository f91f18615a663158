#include "base/unique_function.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

namespace keyferry::base {
namespace {

TEST(UniqueFunction, CarriesWhatHasOneOwner) {
  UniqueFunction<int(int)> function = [value = std::make_unique<int>(40)](int more) { return *value + more; };
  UniqueFunction<int(int)> moved = std::move(function);
  EXPECT_FALSE(function);
  EXPECT_EQ(moved(2), 42);
}

TEST(UniqueFunction, CarriesWhatDoesNotFitInside) {
  std::array<char, 500> large{};
  large[499] = 'x';
  UniqueFunction<char()> function = [large] { return large[499]; };
  UniqueFunction<char()> moved = std::move(function);
  EXPECT_EQ(moved(), 'x');
}

TEST(UniqueFunction, DestroysItsCallableOnceWhereverItHasBeen) {
  auto token = std::make_shared<int>(0);
  for (int large = 0; large < 2; ++large) {
    {
      std::array<char, 200> ballast{};
      UniqueFunction<void()> function =
          large == 0 ? UniqueFunction<void()>([token] {}) : UniqueFunction<void()>([token, ballast] { (void)ballast; });
      UniqueFunction<void()> other = std::move(function);
      other = UniqueFunction<void()>();
      EXPECT_EQ(token.use_count(), 1);
      other = [token] {};
      EXPECT_EQ(token.use_count(), 2);
    }
    EXPECT_EQ(token.use_count(), 1);
  }
}

TEST(UniqueFunction, PassesArgumentsByMove) {
  UniqueFunction<std::string(std::unique_ptr<std::string>)> function = [](std::unique_ptr<std::string> text) {
    return *text;
  };
  EXPECT_EQ(function(std::make_unique<std::string>("moved")), "moved");
}

}  // namespace
}  // namespace keyferry::base
