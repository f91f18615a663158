#include "arguments.h"
#include "commands.h"
#include "module_state.h"
#include "text.h"

namespace keyferry::large_object {
namespace {

constexpr const char* kUsage =
    "ERR usage: LARGEOBJ.FAULT SET fault [argument ...] [ON command] [KEY key] [COUNT n] | CLEAR [fault] | LIST | HELP";

void reply_text(ValkeyModuleCtx* ctx, const std::string& text) {
  ValkeyModule_ReplyWithStringBuffer(ctx, text.data(), text.size());
}

std::string commands_of(unsigned bits) {
  std::string text;
  for (unsigned bit = 1; bit <= static_cast<unsigned>(Command::kInfo); bit <<= 1U) {
    if ((bits & bit) != 0) text.append(text.empty() ? "" : ",").append(name_of(static_cast<Command>(bit)));
  }
  return text;
}

std::string describe(const Faults::Armed& armed) {
  std::string text = armed.kind->name;
  for (const auto& argument : armed.arguments) text += " " + argument;
  text += " ON " + commands_of(armed.commands);
  if (armed.key) text += " KEY " + *armed.key;
  return text + " COUNT " + std::to_string(armed.left.value_or(0));
}

int list(ValkeyModuleCtx* ctx) {
  const auto& armed = state().faults.armed();
  ValkeyModule_ReplyWithArray(ctx, static_cast<long>(armed.size()));
  for (const auto& fault : armed) reply_text(ctx, describe(fault));
  return VALKEYMODULE_OK;
}

int help(ValkeyModuleCtx* ctx) {
  const auto& kinds = fault_kinds();
  ValkeyModule_ReplyWithArray(ctx, static_cast<long>(kinds.size()));
  for (const auto& kind : kinds) {
    const std::string arguments = *kind.arguments == '\0' ? std::string() : std::string(" ") + kind.arguments;
    reply_text(ctx, kind.name + arguments + " (" + commands_of(kind.commands) + "): " + kind.meaning);
  }
  return VALKEYMODULE_OK;
}

}  // namespace

int fault_command(ValkeyModuleCtx* ctx, ValkeyModuleString** argv, int argc) {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) words.emplace_back(text_of(argv[i]));
  if (words.empty()) return ValkeyModule_WrongArity(ctx);
  const auto verb = std::move(words.front());
  words.erase(words.begin());

  if (equals_ignoring_case(verb, "LIST") && words.empty()) return list(ctx);
  if (equals_ignoring_case(verb, "HELP") && words.empty()) return help(ctx);
  if (equals_ignoring_case(verb, "CLEAR") && words.size() <= 1) {
    const auto cleared = state().faults.clear(words.empty() ? std::nullopt : std::optional(words[0]));
    return ValkeyModule_ReplyWithLongLong(ctx, static_cast<long long>(cleared));
  }
  if (equals_ignoring_case(verb, "SET") && !words.empty()) {
    const auto problem = state().faults.arm(words);
    if (problem.empty()) return ValkeyModule_ReplyWithSimpleString(ctx, "OK");
    return ValkeyModule_ReplyWithError(ctx, ("ERR " + problem).c_str());
  }
  return ValkeyModule_ReplyWithError(ctx, kUsage);
}

}  // namespace keyferry::large_object
