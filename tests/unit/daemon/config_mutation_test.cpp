// The loader against files that nobody meant to write: whatever they hold, there is an answer, and it is Options or a
// ConfigError.

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <string_view>

#include "daemon/config_checks.h"
#include "daemon/config_reference.h"
#include "daemon/options.h"

namespace keyferry::daemon {
namespace {

constexpr std::array<std::string_view, 28> kPieces{
    ":",    ": ",  "- ",   "\n",           "\n  ",        "[",      "]",
    "{",    "}",   "#",    "&a ",          "*a",          "!!int ", "!x ",
    "|\n",  ">\n", "'",    "\"",           "---\n",       "...\n",  "? ",
    "<<: ", "\t",  "\xFF", "\xEF\xBB\xBF", "%YAML 1.2\n", "0",      "18446744073709551616GiB"};

std::string mutate(std::string text, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  for (std::size_t rounds = 1 + below(6); rounds > 0; --rounds) {
    const std::size_t at = below(text.size() + 1);
    switch (below(6)) {
      case 0:
        text.insert(at, kPieces[below(kPieces.size())]);
        break;
      case 1:
        text.erase(at, below(40));
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 3:
        text.insert(at, text.substr(below(text.size() + 1), below(200)));
        break;
      case 4:
        text.insert(at, std::string(1 + below(2000), kPieces[below(kPieces.size())][0]));
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

/// True if it loaded. Anything but an answer fails the test, or ends it.
bool loads(const std::string& text) {
  try {
    const Options options = parse_options(text, "k.yaml");
    EXPECT_TRUE(check_options(options).empty());
    return true;
  } catch (const ConfigError& wrong) {
    EXPECT_FALSE(std::string_view(wrong.what()).empty());
    EXPECT_LT(std::string_view(wrong.what()).size(), 64U * 1024);
    return false;
  }
}

TEST(ConfigMutation, NoMutationOfTheDefaultFileCrashesTheLoader) {
  // Shorter lines: comments only dilute the mutations.
  std::string seed;
  for (std::size_t at = 0, next = 0; (next = default_yaml().find('\n', at)) != std::string::npos; at = next + 1) {
    const std::string line = default_yaml().substr(at, next - at);
    if (line.find('#') == std::string::npos) seed += line + "\n";
  }
  ASSERT_TRUE(loads(seed));
  std::mt19937 random(20240611);
  int good = 0;
  constexpr int kRounds = 4000;
  for (int i = 0; i < kRounds; ++i) good += loads(mutate(seed, random)) ? 1 : 0;
  // Both ends are met: a loader that refuses or takes everything would pass the rest.
  EXPECT_GT(good, 0);
  EXPECT_LT(good, kRounds / 2);
}

TEST(ConfigMutation, DeepAndWideFilesEnd) {
  for (const std::string_view piece : {"[", "{a: ", "- ", "? ", "&a [", "!x "}) {
    std::string deep;
    for (int i = 0; i < 20000; ++i) deep += piece;
    EXPECT_FALSE(loads(deep)) << piece;
  }
  std::string wide = "listen:\n";
  for (int i = 0; i < 20000; ++i) wide += " - {unix: /s" + std::to_string(i) + "}\n";
  EXPECT_FALSE(loads(wide));
}

}  // namespace
}  // namespace keyferry::daemon
