#include "daemon/config_loader.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>
#include <utility>

#include "daemon/config_suggest.h"
#include "daemon/options_table.h"
#include "daemon/options_values.h"

namespace keyferry::daemon {

namespace {

constexpr std::size_t kMostProblems = 20;
constexpr std::size_t kLongestItems = 1024;
constexpr std::size_t kShownBytes = 80;

int line_at(const YAML::Node& node) {
  return node.Mark().line + 1;
}

/// A piece of the file as a message may show it.
std::string quoted(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kShownBytes)) out += (c >= 0 && c < 0x20) || c == 0x7F ? '?' : c;
  return "\"" + out + (text.size() > kShownBytes ? "..." : "") + "\"";
}

std::string join(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

/// "not a value but a list" and so on, for what is not a scalar.
std::string_view kind_of(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Null:
      return "has no value";
    case YAML::NodeType::Sequence:
      return "is a list";
    case YAML::NodeType::Map:
      return "is a map";
    case YAML::NodeType::Scalar:
      return "is a plain value";
    case YAML::NodeType::Undefined:
      break;
  }
  return "is nothing";
}

/// A tag of one's own ("!vault x") asks for something that is not done here; to take its text instead would be wrong in
/// silence.
bool has_foreign_tag(const YAML::Node& node) {
  const std::string& tag = node.Tag();
  return !tag.empty() && tag != "?" && tag != "!" && !tag.starts_with("tag:yaml.org,2002:");
}

}  // namespace

Options ConfigLoader::load(const std::string& text) {
  options_ = defaults();
  try {
    read_document(text);
  } catch (const YAML::Exception& broken) {
    add(broken.mark.is_null() ? 0 : broken.mark.line + 1, "not YAML: " + broken.msg);
  }
  // The rules between keys only mean something when each value is possible.
  if (found_.empty()) {
    for (const Problem& problem : check_options(options_)) {
      // A key that is left to its default has no line: then that of the key it does not go with, or of the section.
      const auto own = lines_.find(problem.path);
      const int other = line_of(problem.other);
      add(own != lines_.end() ? own->second
          : other != 0        ? other
                              : line_of(problem.path),
          problem.path + ": " + problem.text);
    }
  }
  if (!found_.empty()) fail();
  return std::move(options_);
}

Options ConfigLoader::defaults() {
  static const Options kDefaults = [] {
    ConfigLoader loader("the defaults");
    for (const OptionInfo& info : option_table()) {
      // Those of a list's items are set when an item is made.
      if (!info.default_text.empty() && info.path.find("[]") == std::string_view::npos) loader.read_default(info);
    }
    return std::move(loader.options_);
  }();
  return kDefaults;
}

void ConfigLoader::read_default(const OptionInfo& info) {
  read_value(info, YAML::Load(std::string(info.default_text)), std::string(info.path));
}

void ConfigLoader::read_document(const std::string& text) {
  const std::vector<YAML::Node> documents = YAML::LoadAll(text);
  if (documents.size() > 1)
    return add(line_at(documents[1]), "a second YAML document; one file holds one configuration");
  if (documents.empty() || documents[0].IsNull()) return;
  if (!documents[0].IsMap())
    return add(line_at(documents[0]), "the file " + std::string(kind_of(documents[0])) + "; it must be a map of keys");
  read_map(documents[0], "", "");
}

void ConfigLoader::read_map(const YAML::Node& map, const std::string& path, const std::string& shown) {
  std::set<std::string> seen;
  for (const auto& entry : map) {
    const YAML::Node& key = entry.first;
    if (!key.IsScalar()) {
      add(line_at(key), (shown.empty() ? "the file" : shown) + ": a key that " + std::string(kind_of(key)) +
                            "; keys are plain names");
      continue;
    }
    if (!seen.insert(key.Scalar()).second) {
      add(line_at(key), join(shown, key.Scalar()) + ": the key stands here a second time, first in line " +
                            std::to_string(line_of(join(shown, key.Scalar()))));
      continue;
    }
    read_entry(key, entry.second, join(path, key.Scalar()), join(shown, key.Scalar()));
  }
}

void ConfigLoader::read_entry(const YAML::Node& key, const YAML::Node& value, const std::string& path,
                              const std::string& shown) {
  lines_.emplace(shown, line_at(key));
  const OptionInfo* info = key.Scalar().find_first_of(".[") == std::string::npos ? find_option(path) : nullptr;
  if (info == nullptr) return refuse_key(path, shown, line_at(key));
  read_value(*info, value, shown);
}

void ConfigLoader::read_value(const OptionInfo& info, const YAML::Node& value, const std::string& shown) {
  if (has_foreign_tag(value))
    return add(line_at(value), shown + ": the tag " + quoted(value.Tag()) + " means nothing here");
  switch (info.type) {
    case OptionType::kSection:
      return read_section(info, value, shown);
    case OptionType::kItems:
      return read_items(info, value, shown);
    case OptionType::kTextList:
      return read_text_list(info, value, shown);
    default:
      return read_scalar(info, value, shown);
  }
}

void ConfigLoader::read_section(const OptionInfo& info, const YAML::Node& value, const std::string& shown) {
  // "pool:" with all its keys commented out is the same as no pool; where the section itself has a meaning
  // (upstream.tls), it must be said.
  if (value.IsNull() && info.set == nullptr) return;
  if (value.IsNull()) return add(line_of(shown), shown + ": has no keys; write {} if none is needed, or take it out");
  if (!value.IsMap())
    return add(line_of(shown), shown + ": " + std::string(kind_of(value)) + "; allowed: " + allowed_text(info));
  if (info.set != nullptr) info.set(options_, {});
  read_map(value, std::string(info.path), shown);
}

void ConfigLoader::read_items(const OptionInfo& info, const YAML::Node& value, const std::string& shown) {
  if (!value.IsSequence())
    return add(line_of(shown), shown + ": " + std::string(kind_of(value)) + "; allowed: " + allowed_text(info));
  if (value.size() > kLongestItems)
    return add(line_of(shown), shown + ": has more than " + std::to_string(kLongestItems) + " items");
  info.clear(options_);
  std::size_t index = 0;
  for (const YAML::Node& item : value) {
    const std::string item_shown = shown + "[" + std::to_string(index++) + "]";
    lines_.emplace(item_shown, line_at(item));
    info.set(options_, {});
    read_item(info, item, item_shown);
  }
}

void ConfigLoader::read_item(const OptionInfo& info, const YAML::Node& item, const std::string& shown) {
  const std::string path = std::string(info.path) + "[]";
  for (const OptionInfo& inner : option_table()) {
    if (!inner.default_text.empty() && option_section(inner.path) == path) read_default(inner);
  }
  if (has_foreign_tag(item))
    return add(line_at(item), shown + ": the tag " + quoted(item.Tag()) + " means nothing here");
  if (item.IsMap()) return read_map(item, path, shown);
  const OptionInfo* plain = find_option(path);
  if (plain != nullptr && item.IsScalar()) return read_scalar(*plain, item, shown);
  add(line_of(shown), shown + ": " + std::string(kind_of(item)) +
                          "; allowed: " + (plain == nullptr ? "" : allowed_text(*plain) + ", or ") + "a map of keys");
}

void ConfigLoader::read_text_list(const OptionInfo& info, const YAML::Node& value, const std::string& shown) {
  const std::string allowed = "; allowed: " + allowed_text(info);
  if (!value.IsSequence()) return add(line_of(shown), shown + ": " + std::string(kind_of(value)) + allowed);
  if (value.size() > kLongestItems)
    return add(line_of(shown), shown + ": has more than " + std::to_string(kLongestItems) + " items");
  Value list;
  for (const YAML::Node& item : value) {
    if (!item.IsScalar() || item.Scalar().empty() || has_foreign_tag(item)) {
      return add(line_at(item), shown + ": holds an item that " +
                                    (item.IsScalar() ? "is empty or tagged" : std::string(kind_of(item))) + allowed);
    }
    list.list.push_back(item.Scalar());
  }
  info.set(options_, list);
}

void ConfigLoader::read_scalar(const OptionInfo& info, const YAML::Node& value, const std::string& shown) {
  if (!value.IsScalar())
    return add(line_of(shown), shown + ": " + std::string(kind_of(value)) + "; allowed: " + allowed_text(info));
  const base::Result<Value> parsed = parse_value(info, value.Scalar());
  if (!parsed)
    return add(line_at(value), shown + ": " + quoted(value.Scalar()) + " is " + parsed.error().message +
                                   "; allowed: " + allowed_text(info));
  info.set(options_, parsed.value());
}

void ConfigLoader::refuse_key(const std::string& path, const std::string& shown, int line) {
  const auto later = keys_not_in_this_version();
  if (std::find(later.begin(), later.end(), path) != later.end()) {
    return add(line, shown + ": this version does not have this key yet; take it out");
  }
  const std::string nearest = nearest_option(path);
  add(line, quoted(shown) + ": unknown key" +
                (nearest.empty() ? "; config/reference.md lists the keys" : "; the nearest known one is " + nearest));
}

void ConfigLoader::add(int line, std::string text) {
  found_.push_back({line, std::move(text)});
}

int ConfigLoader::line_of(const std::string& shown) const {
  // Where the key itself is not in the file: the nearest thing around it that is, if any.
  for (std::string_view path = shown; !path.empty();
       path = path.substr(0, std::max(path.rfind('.') + 1, std::size_t{1}) - 1)) {
    const auto found = lines_.find(std::string(path));
    if (found != lines_.end()) return found->second;
  }
  return 0;
}

void ConfigLoader::fail() const {
  std::string all;
  for (std::size_t i = 0; i < std::min(found_.size(), kMostProblems); ++i) {
    const Found& one = found_[i];
    all += (i == 0 ? "" : "\n") + name_ + ":" + (one.line > 0 ? std::to_string(one.line) + ":" : "") + " " + one.text;
  }
  if (found_.size() > kMostProblems)
    all += "\n" + name_ + ": and " + std::to_string(found_.size() - kMostProblems) + " more";
  throw ConfigError(all);
}

}  // namespace keyferry::daemon
