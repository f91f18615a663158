#include "daemon/config_reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "daemon/options.h"
#include "daemon/options_table.h"

namespace keyferry::daemon {
namespace {

const std::filesystem::path kConfig = std::filesystem::path(KEYFERRY_SOURCE_DIR) / "config";

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Takes the comment signs off keys that have no default, so that every key of the file is there.
std::string with_all_keys(const std::string& yaml) {
  // One word as the value: prose has more.
  static const std::regex commented_key(R"( *# +[a-z_]+: \S+)");
  std::istringstream lines(yaml);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, commented_key) || line == "  # tls:") line.erase(line.find("# "), 2);
    out += line + "\n";
  }
  return out;
}

TEST(ConfigReference, TheFilesInConfigAreWhatTheTableGives) {
  EXPECT_EQ(read(kConfig / "keyferry.yaml"), default_yaml())
      << "run: keyferry check-config --default > config/keyferry.yaml";
  EXPECT_EQ(read(kConfig / "reference.md"), reference_markdown())
      << "run: keyferry check-config --reference > config/reference.md";
}

TEST(ConfigReference, TheCommentedFileLoadsAndGivesTheDefaults) {
  EXPECT_EQ(parse_options(default_yaml(), "k.yaml"), default_options());
}

TEST(ConfigReference, TheCommentedFileHasEveryKeyAndAllOfThemAreTaken) {
  const std::string yaml = default_yaml();
  for (const OptionInfo& info : option_table()) {
    if (info.path.ends_with("[]")) continue;
    EXPECT_THAT(yaml, ::testing::ContainsRegex("(^|\n)[ #]*" + std::string(option_name(info.path)) + ":")) << info.path;
  }
  // Keys of the mode that is not the default's.
  std::string all = with_all_keys(yaml);
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"mode: standalone", "mode: sentinel"},
                                 {"sentinels: []", "sentinels: ['a:1']"}}) {
    ASSERT_NE(all.find(from), std::string::npos);
    all.replace(all.find(from), from.size(), to);
  }
  const Options options = parse_options(all, "k.yaml");
  EXPECT_EQ(options.upstream.tls.value().name, "valkey.example.net");
  EXPECT_EQ(options.upstream.password_file, "/etc/keyferry/password");
  EXPECT_EQ(options.fabric.library, "/opt/amazon/efa/lib/libfabric.so.1");
}

TEST(ConfigReference, TheExamplesAreGood) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kConfig / "examples")) {
    EXPECT_NO_THROW(load_options(entry.path())) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 2U);
}

TEST(ConfigReference, HelpAndReferenceNameEveryOption) {
  for (const OptionInfo& info : option_table()) {
    EXPECT_THAT(reference_markdown(), ::testing::HasSubstr("| `" + std::string(info.path) + "` |"));
    if (info.type == OptionType::kSection || info.type == OptionType::kItems) continue;
    EXPECT_THAT(config_help(), ::testing::HasSubstr(std::string(info.path)));
  }
  for (const std::string_view key : keys_not_in_this_version())
    EXPECT_THAT(reference_markdown(), ::testing::HasSubstr("- `" + std::string(key) + "`"));
}

TEST(OptionTable, RowsAreWhole) {
  std::set<std::string_view> seen;
  for (const OptionInfo& info : option_table()) {
    EXPECT_TRUE(seen.insert(info.path).second) << info.path << " twice";
    EXPECT_TRUE(info.doc.ends_with('.')) << info.path;
    EXPECT_EQ(info.doc.find_first_of("\n|"), std::string_view::npos) << info.path;
    EXPECT_LE(info.least, info.most) << info.path;
    const bool has_no_setter = info.set == nullptr;
    EXPECT_TRUE(!has_no_setter || info.type == OptionType::kSection) << info.path;
    EXPECT_EQ(info.choices.empty(), info.type != OptionType::kChoice) << info.path;
    EXPECT_TRUE(!info.default_text.empty() || !info.example.empty() || info.type == OptionType::kSection) << info.path;
    // A row stands below its section or list.
    std::string_view section = option_section(info.path);
    if (section.ends_with("[]")) section.remove_suffix(2);
    EXPECT_TRUE(section.empty() || seen.count(section) == 1) << info.path;
  }
}

}  // namespace
}  // namespace keyferry::daemon
