#include "faults.h"

#include <algorithm>
#include <utility>

#include "counters.h"
#include "text.h"

namespace keyferry::large_object {
namespace {

constexpr std::pair<Command, std::string_view> kNames[] = {
    {Command::kHello, "BLOB.RDMA_HELLO"}, {Command::kRdmaGet, "BLOB.RDMA_GET"}, {Command::kRdmaSet, "BLOB.RDMA_SET"},
    {Command::kTcpGet, "BLOB.TCP_GET"},   {Command::kTcpSet, "BLOB.TCP_SET"},   {Command::kInfo, "BLOB.INFO"},
};

// Takes the command names with and without "BLOB.".
std::optional<unsigned> command_bit(std::string_view text) {
  for (const auto& [command, name] : kNames) {
    if (equals_ignoring_case(text, name) || equals_ignoring_case(text, name.substr(name.find('.') + 1))) {
      return static_cast<unsigned>(command);
    }
  }
  return std::nullopt;
}

bool is_option(const std::string& word) {
  return equals_ignoring_case(word, "ON") || equals_ignoring_case(word, "KEY") || equals_ignoring_case(word, "COUNT");
}

std::string apply_option(Faults::Armed& armed, const std::string& option, const std::string& value) {
  if (equals_ignoring_case(option, "KEY")) {
    armed.key = value;
  } else if (equals_ignoring_case(option, "ON")) {
    const auto bit = command_bit(value);
    if (!bit || (armed.kind->commands & *bit) == 0) {
      return "fault " + std::string(armed.kind->name) + " cannot be ON " + value;
    }
    armed.commands = *bit;
  } else {
    const auto count = parse_unsigned(value);
    if (!count) return "COUNT must be a number; 0 means until it is cleared";
    armed.left = *count == 0 ? std::nullopt : count;
  }
  return {};
}

}  // namespace

std::string_view name_of(Command command) {
  return std::find_if(std::begin(kNames), std::end(kNames), [command](const auto& row) { return row.first == command; })
      ->second;
}

std::string Faults::arm(const std::vector<std::string>& words) {
  const auto& kinds = fault_kinds();
  const auto kind = std::find_if(kinds.begin(), kinds.end(),
                                 [&words](const FaultKind& row) { return equals_ignoring_case(words[0], row.name); });
  if (kind == kinds.end()) return "unknown fault '" + words[0] + "'; see LARGEOBJ.FAULT HELP";

  Armed armed{&*kind, {}, kind->commands, std::nullopt, 1, nullptr};
  const auto options = std::find_if(words.begin() + 1, words.end(), is_option);
  armed.arguments.assign(words.begin() + 1, options);
  std::string problem;
  armed.effect = kind->parse(*kind, armed.arguments, problem);
  for (auto option = options; problem.empty() && option != words.end(); option += 2) {
    if (!is_option(*option) || option + 1 == words.end()) return "options are ON command, KEY key and COUNT n";
    problem = apply_option(armed, *option, *(option + 1));
  }
  if (problem.empty()) armed_.push_back(std::move(armed));
  return problem;
}

std::size_t Faults::clear(const std::optional<std::string>& name) {
  return armed_.remove_if(
      [&name](const Armed& armed) { return !name || equals_ignoring_case(*name, armed.kind->name); });
}

FaultPlan Faults::take(Command command, std::string_view key) {
  FaultPlan plan;
  for (auto armed = armed_.begin(); armed != armed_.end();) {
    if ((armed->commands & static_cast<unsigned>(command)) == 0 || (armed->key && *armed->key != key)) {
      ++armed;
      continue;
    }
    armed->effect(plan, command);
    add(counters.faults_fired);
    const bool used_up = armed->left && --*armed->left == 0;
    armed = used_up ? armed_.erase(armed) : std::next(armed);
  }
  return plan;
}

}  // namespace keyferry::large_object
