#include "daemon/config_reference.h"

#include <algorithm>
#include <string_view>

#include "daemon/options_table.h"
#include "daemon/options_values.h"

namespace keyferry::daemon {

namespace {

constexpr std::size_t kLineBytes = 110;

/// Words of `text` in lines that begin with `first` and then with `rest`.
std::string wrap(std::string_view text, const std::string& first, const std::string& rest) {
  std::string out;
  std::string line = first;
  bool has_word = false;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, space);
    if (has_word && line.size() + 1 + word.size() > kLineBytes) {
      out += line + "\n";
      line = rest;
      has_word = false;
    }
    line += (has_word ? " " : "") + std::string(word);
    has_word = true;
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return out + line + "\n";
}

bool is_plain(const OptionInfo& info) {
  return info.type != OptionType::kSection && info.type != OptionType::kItems;
}

/// The meaning, and what is allowed where the default does not show it; how sizes and times are written is said once,
/// at the top.
std::string doc_and_allowed(const OptionInfo& info) {
  const std::string word = info.word.empty() ? "" : std::string(info.word) + ", or ";
  const std::string doc = std::string(info.doc) + " Allowed: " + word;
  switch (info.type) {
    case OptionType::kSize:
      return doc + size_text(info.least) + " to " + size_text(info.most) + ".";
    case OptionType::kDuration:
      return doc + duration_text(info.least) + " to " + duration_text(info.most) + ".";
    case OptionType::kCount:
      return doc + std::to_string(info.least) + " to " + std::to_string(info.most) + ".";
    case OptionType::kChoice:
      return std::string(info.doc) + " Allowed: " + allowed_text(info) + ".";
    case OptionType::kAddress:
      return doc + "host:port.";
    default:
      return std::string(info.doc);
  }
}

bool is_inside_item(const OptionInfo& info) {
  return info.path.find("[]") != std::string_view::npos;
}

/// A block of the file, each line moved in and, where it is only an example, commented out.
std::string block(std::string_view text, const std::string& indent, bool commented) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += indent + (commented ? "# " : "") + std::string(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

/// A list with what its items may have, its default items and an example of others.
std::string items_block(const OptionInfo& list, const std::string& indent) {
  std::string out;
  for (const OptionInfo& inner : option_table()) {
    const std::string items = std::string(list.path) + "[].";
    if (!inner.path.starts_with(items)) continue;
    const std::string name(inner.path.substr(items.size()));
    const std::string standard = inner.default_text.empty() ? "" : " Default: " + std::string(inner.default_text);
    out += wrap(name + ": " + doc_and_allowed(inner) + standard, indent + "#   ", indent + "#     ");
  }
  out += indent + std::string(option_name(list.path)) + ":\n";
  return out + block(list.default_text, indent + "  ", false) + block(list.example, indent + "  ", true);
}

std::string table_cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : c == '\n' ? std::string(" ") : std::string(1, c);
  return out;
}

std::string code(std::string_view text) {
  return text.empty() ? "" : "`" + table_cell(text) + "`";
}

}  // namespace

std::string default_yaml() {
  std::string out =
      "# The configuration of keyferryd: every key with its default. What is left out has its default, so a file holds "
      "only what differs.\n"
      "# Sizes are written 64KiB or 4GiB, times 250ms or 30s. `keyferry check-config FILE` checks a file.\n"
      "# Made by `keyferry check-config --default` from the table of options; so is reference.md (`--reference`).\n";
  for (const OptionInfo& info : option_table()) {
    if (is_inside_item(info)) continue;
    const std::size_t depth = static_cast<std::size_t>(std::count(info.path.begin(), info.path.end(), '.'));
    const std::string indent(2 * depth, ' ');
    // A section that means something by being there (upstream.tls) is commented out with all its keys.
    const OptionInfo* section = find_option(option_section(info.path));
    const bool in_optional = section != nullptr && section->set != nullptr;
    const bool is_optional = info.type == OptionType::kSection && info.set != nullptr;
    if (depth == 0) out += "\n";
    const std::string comment = in_optional ? std::string(2 * (depth - 1), ' ') + "#   " : indent;
    out += wrap(doc_and_allowed(info), comment + "# ", comment + "# ");
    const std::string name(option_name(info.path));
    if (info.type == OptionType::kItems) {
      out += items_block(info, indent);
    } else if (info.type == OptionType::kSection) {
      out += indent + (is_optional ? "# " : "") + name + ":\n";
    } else if (info.default_text.empty()) {
      out += (in_optional ? comment : comment + "# ") + name + ": " + std::string(info.example) + "\n";
    } else {
      out += comment + name + ": " + std::string(info.default_text) + "\n";
    }
  }
  return out;
}

std::string reference_markdown() {
  std::string out =
      "# Configuration reference\n\n"
      "Made by `keyferry check-config --reference` from the table of options in the code; a test fails when the two "
      "differ.\n"
      "One YAML file; a key that is left out has its default. Unknown keys, wrong types and impossible values are "
      "errors.\n\n"
      "| Key | Default | Allowed | Meaning |\n|---|---|---|---|\n";
  for (const OptionInfo& info : option_table()) {
    const std::string standard =
        info.default_text.empty() ? (info.type == OptionType::kSection ? "" : "not set") : code(info.default_text);
    out += "| " + code(info.path) + " | " + standard + " | " + table_cell(allowed_text(info)) + " | " +
           table_cell(info.doc) + " |\n";
  }
  out +=
      "\n## Rules between keys\n\n"
      "- Each item of `listen` has either `tcp` or `unix`; `mode` is for `unix`. `tcp` beyond loopback needs "
      "`require_auth` or `allow_unauthenticated: true` in the item; `user` goes with `password_file` and not with "
      "`require_auth`; `allow_uids`, `allow_gids` and `user_by_uid` are for `unix`. `tls` is for `tcp` and needs "
      "`cert` and `key`.\n"
      "- `upstream.mode: sentinel` needs `sentinels` and `master` and takes no `nodes`; all keys with `sentinel` are "
      "for "
      "it alone. Otherwise `upstream.nodes` has exactly one item. `tls_port` needs `upstream.tls`; `transport: tls` "
      "needs it too, "
      "`transport: tcp` excludes it; `transport: rdma` takes RDMA, which is in the clear, all the same. `rdma_port` "
      "needs a `transport` that may use it.\n"
      "- `upstream.tls.cert` and `key` go together. A `user` other than default needs `password_file` or "
      "`password_command`, of which there is one at most.\n"
      "- `pool.region` is a power of two, 256 of them hold `limits.value_max`; `pool.size` is whole regions, at least "
      "two.\n"
      "- `transfer.warm` is at most `lanes`; `transfer.threshold` is at most `limits.value_max`.\n"
      "- `limits.client_buffer` is at most `total_buffer`. `limits.upstream_connections` is at least lanes + 2 × "
      "`upstream.connections` × workers + workers\n"
      "  (workers: 4 if `auto`).\n"
      "- `admin.http` is no address of `listen`.\n\n"
      "## Not in this version\n\nThese keys are planned and refused with that reason:\n\n";
  for (const std::string_view key : keys_not_in_this_version()) out += "- " + code(key) + "\n";
  for (const OptionInfo& info : option_table()) {
    for (const std::string_view choice : info.not_here)
      out += "- " + code(std::string(info.path) + ": " + std::string(choice)) + "\n";
  }
  return out;
}

std::string config_help() {
  std::string out;
  for (const OptionInfo& info : option_table()) {
    if (!is_plain(info)) continue;
    out += std::string(info.path) + (info.default_text.empty() ? "" : ": " + std::string(info.default_text)) + "\n";
    out += wrap(doc_and_allowed(info), "    ", "    ");
  }
  return out;
}

}  // namespace keyferry::daemon
