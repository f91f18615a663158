#include "telemetry/status_page.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <stdexcept>
#include <vector>

namespace keyferry::telemetry {

namespace {

using Json = nlohmann::ordered_json;

/// Deeper than any status is; beyond it a value is shown as its JSON.
constexpr int kMostLevels = 6;

/// The JSON boiled down to what both forms show. The first row of a table holds the column names; a list of facts has
/// no such row.
struct Block {
  std::string title;
  int level = 0;
  bool has_header = false;
  std::vector<std::vector<std::string>> rows;
};

std::string with_unit(double value) {
  static constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
  return text.data();
}

std::string dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string scalar_text(const std::string& key, const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_null()) return "-";
  if (value.is_number() && key.ends_with("bytes")) return with_unit(value.get<double>());
  return dump(value);
}

bool is_table(const Json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(), [](const Json& row) { return row.is_object(); });
}

bool is_flat(const Json& value) {
  return !value.is_object() && !is_table(value);
}

std::string flat_text(const std::string& key, const Json& value) {
  if (!value.is_array()) return scalar_text(key, value);
  std::string all;
  for (const Json& item : value) all += (all.empty() ? "" : ", ") + scalar_text(key, item);
  return all.empty() ? "-" : all;
}

Block table_block(const std::string& title, int level, const Json& list) {
  std::vector<std::string> columns;
  for (const Json& row : list) {
    for (const auto& [key, value] : row.items()) {
      if (std::find(columns.begin(), columns.end(), key) == columns.end()) columns.push_back(key);
    }
  }
  Block block{title, level, true, {columns}};
  for (const Json& row : list) {
    std::vector<std::string>& cells = block.rows.emplace_back();
    for (const std::string& column : columns) {
      const auto found = row.find(column);
      cells.push_back(found == row.end() ? "-" : found->is_object() ? dump(*found) : flat_text(column, *found));
    }
  }
  return block;
}

void add_blocks(std::vector<Block>& blocks, const std::string& title, int level, const Json& object) {
  Block facts{title, level, false, {}};
  for (const auto& [key, value] : object.items()) {
    if (is_flat(value)) facts.rows.push_back({key, flat_text(key, value)});
  }
  blocks.push_back(std::move(facts));
  for (const auto& [key, value] : object.items()) {
    if (is_table(value)) {
      blocks.push_back(table_block(key, level + 1, value));
    } else if (value.is_object()) {
      if (level + 1 < kMostLevels) {
        add_blocks(blocks, key, level + 1, value);
      } else {
        blocks.push_back({key, level + 1, false, {{"", dump(value)}}});
      }
    }
  }
}

std::vector<Block> blocks_of(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) throw std::runtime_error("the status is not a JSON object");
  std::vector<Block> blocks;
  add_blocks(blocks, "keyferryd", 0, json);
  return blocks;
}

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::size_t width_of(std::string_view text) {
  // Columns are aligned by characters, not bytes.
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

/// For a terminal: nothing that a name in the JSON could use to steer it.
std::string printable(std::string_view text) {
  std::string out(text);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return (c >= 0 && c < 0x20) || c == 0x7F; }, '?');
  return out;
}

constexpr std::string_view kHead =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>keyferryd</title>\n<style>\n"
    "body{font:14px/1.4 system-ui,sans-serif;margin:2em;color:#222;background:#fff}\n"
    "h1{font-size:1.4em}h2{font-size:1.1em;margin:1.4em 0 .3em}\n"
    "table{border-collapse:collapse}td,th{padding:.15em .8em .15em 0;text-align:left;vertical-align:top}\n"
    "th{font-weight:600;border-bottom:1px solid #bbb}td:first-child{color:#555}\n"
    "</style></head><body>\n";

}  // namespace

std::string status_html(std::string_view json) {
  std::string out(kHead);
  for (const Block& block : blocks_of(json)) {
    const char* heading = block.level == 0 ? "h1" : "h2";
    out += std::string("<") + heading + ">" + escape(block.title) + "</" + heading + ">\n";
    if (block.rows.empty()) continue;
    out += "<table>\n";
    for (std::size_t i = 0; i < block.rows.size(); ++i) {
      const char* cell = block.has_header && i == 0 ? "th" : "td";
      out += "<tr>";
      for (const std::string& text : block.rows[i])
        out += std::string("<") + cell + ">" + escape(text) + "</" + cell + ">";
      out += "</tr>\n";
    }
    out += "</table>\n";
  }
  out += "</body></html>\n";
  return out;
}

std::string status_text(std::string_view json) {
  std::string out;
  for (const Block& block : blocks_of(json)) {
    if (!out.empty()) out += "\n";
    out += printable(block.title) + "\n";
    std::vector<std::size_t> widths;
    for (const auto& row : block.rows) {
      widths.resize(std::max(widths.size(), row.size()));
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
    }
    for (const auto& row : block.rows) {
      std::string line;
      for (std::size_t i = 0; i < row.size(); ++i) {
        line += "  " + printable(row[i]);
        if (i + 1 < row.size()) line.append(widths[i] - width_of(row[i]), ' ');
      }
      out += line + "\n";
    }
  }
  return out;
}

}  // namespace keyferry::telemetry
