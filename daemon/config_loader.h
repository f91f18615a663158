#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config_checks.h"
#include "daemon/options.h"

namespace YAML {
class Node;
}

namespace keyferry::daemon {

struct OptionInfo;

/// Walks a YAML document by the table of options, fills an Options and collects everything that is wrong. Used once, by
/// one thread.
class ConfigLoader {
 public:
  /// `name` stands for the file in messages.
  explicit ConfigLoader(std::string name) : name_(std::move(name)) {}

  /// Throws ConfigError.
  Options load(const std::string& text);

  /// Every default of the table, and nothing else.
  static Options defaults();

 private:
  void read_document(const std::string& text);
  void read_map(const YAML::Node& map, const std::string& path, const std::string& shown);
  void read_entry(const YAML::Node& key, const YAML::Node& value, const std::string& path, const std::string& shown);
  void read_value(const OptionInfo& info, const YAML::Node& value, const std::string& shown);
  void read_section(const OptionInfo& info, const YAML::Node& value, const std::string& shown);
  void read_items(const OptionInfo& info, const YAML::Node& value, const std::string& shown);
  void read_item(const OptionInfo& info, const YAML::Node& item, const std::string& shown);
  void read_text_list(const OptionInfo& info, const YAML::Node& value, const std::string& shown);
  void read_scalar(const OptionInfo& info, const YAML::Node& value, const std::string& shown);
  void read_default(const OptionInfo& info);
  void refuse_key(const std::string& path, const std::string& shown, int line);
  void add(int line, std::string text);
  int line_of(const std::string& shown) const;
  [[noreturn]] void fail() const;

  struct Found {
    int line;
    std::string text;
  };

  std::string name_;
  Options options_;
  std::vector<Found> found_;
  /// Where a key stands, by its shown path ("listen[0].tcp").
  std::map<std::string, int> lines_;
};

}  // namespace keyferry::daemon
