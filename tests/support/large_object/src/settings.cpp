#include "settings.h"

#include <array>
#include <map>
#include <optional>
#include <string_view>

#include "text.h"

namespace keyferry::large_object {
namespace {

constexpr unsigned kFixed = VALKEYMODULE_CONFIG_IMMUTABLE;
constexpr unsigned kMemory = VALKEYMODULE_CONFIG_MEMORY;
constexpr long long kMaxSize = 1LL << 40;

struct NumberRow {
  const char* name;
  long long Settings::*field;
  long long standard, min, max;
  unsigned flags;
};

constexpr NumberRow kNumbers[] = {
    {"max-object-size", &Settings::max_object_size, 512LL << 20, 1, kMaxSize, kMemory},
    {"dram-maxmemory", &Settings::dram_maxmemory, 0, 0, kMaxSize, kMemory},
    {"dram-reserve", &Settings::dram_reserve, 256LL << 20, 0, kMaxSize, kFixed | kMemory},
    {"chunk-size", &Settings::chunk_size, 8LL << 20, 4096, 256LL << 20, kMemory},
    {"worker-threads", &Settings::worker_threads, 2, 1, 32, kFixed},
    {"fabric-services", &Settings::fabric_services, 2, 0, 64, kFixed},
    {"fabric-max-in-flight", &Settings::fabric_max_in_flight, 0, 0, 65536, kFixed},
    {"fabric-patience", &Settings::fabric_patience, 1000, 1, 600'000, kFixed},
};

struct TextRow {
  const char* name;
  std::string Settings::*field;
  const char* standard;
};

constexpr TextRow kTexts[] = {
    {"fabric-interfaces", &Settings::fabric_interfaces, ""},
    {"fabric-bind", &Settings::fabric_bind, "127.0.0.1"},
    {"libfabric-path", &Settings::libfabric_path, ""},
};

struct SwitchRow {
  const char* name;
  int Settings::*field;
  int standard;
};

constexpr SwitchRow kSwitches[] = {
    {"shuffle", &Settings::shuffle, 1},
    {"accept-crc", &Settings::accept_crc, 1},
};

struct ChoiceRow {
  const char* name;
  int Settings::*field;
  int standard;
  std::array<const char*, 4> choices;
  int count;
  unsigned flags;
};

constexpr std::array<int, 4> kChoiceValues = {0, 1, 2, 3};

ChoiceRow choices[] = {
    {"fabric-provider", &Settings::fabric_provider, 0, {"Emulated", "EfaDirect", "Off", "Verbs"}, 4, kFixed},
    {"check-order", &Settings::check_order, 0, {"arguments-first", "lookup-first", nullptr, nullptr}, 2, 0},
};

// The server shows a string setting through a ValkeyModuleString that the module keeps; remembered per field.
std::map<const std::string*, ValkeyModuleString*>& shown_texts() {
  static auto* texts = new std::map<const std::string*, ValkeyModuleString*>;
  return *texts;
}

long long get_number(const char*, void* field) {
  return *static_cast<long long*>(field);
}

int set_number(const char*, long long value, void* field, ValkeyModuleString**) {
  *static_cast<long long*>(field) = value;
  return VALKEYMODULE_OK;
}

int get_int(const char*, void* field) {
  return *static_cast<int*>(field);
}

int set_int(const char*, int value, void* field, ValkeyModuleString**) {
  *static_cast<int*>(field) = value;
  return VALKEYMODULE_OK;
}

ValkeyModuleString* get_text(const char*, void* field) {
  const auto* text = static_cast<const std::string*>(field);
  auto*& shown = shown_texts()[text];
  if (shown != nullptr) ValkeyModule_FreeString(nullptr, shown);
  shown = ValkeyModule_CreateString(nullptr, text->data(), text->size());
  return shown;
}

int set_text(const char*, ValkeyModuleString* value, void* field, ValkeyModuleString**) {
  std::size_t size = 0;
  const char* data = ValkeyModule_StringPtrLen(value, &size);
  static_cast<std::string*>(field)->assign(data, size);
  return VALKEYMODULE_OK;
}

// The pairs of the loadmodule line, taken out as they are used, so that what is left was not known.
class Arguments {
 public:
  std::string read(const std::vector<std::string>& words) {
    if (words.size() % 2 != 0) return "arguments of loadmodule must be pairs of name and value";
    constexpr std::string_view kPrefix = "largeobj.";
    for (std::size_t i = 0; i < words.size(); i += 2) {
      auto name = to_lower(words[i]);
      if (name.starts_with(kPrefix)) name.erase(0, kPrefix.size());
      values_[name] = words[i + 1];
    }
    return {};
  }

  std::optional<std::string> take(const char* name) {
    const auto found = values_.find(name);
    if (found == values_.end()) return std::nullopt;
    auto value = std::move(found->second);
    values_.erase(found);
    return value;
  }

  [[nodiscard]] std::string unknown() const {
    return values_.empty() ? std::string()
                           : "unknown setting '" + values_.begin()->first + "'; see README.md for the names";
  }

 private:
  std::map<std::string, std::string> values_;
};

std::string refused(const char* name, const std::string& value, const std::string& allowed) {
  return "largeobj." + std::string(name) + " cannot be '" + value + "': " + allowed;
}

std::string register_numbers(ValkeyModuleCtx* ctx, Arguments& arguments, Settings& settings) {
  for (const auto& row : kNumbers) {
    auto standard = row.standard;
    if (const auto given = arguments.take(row.name)) {
      const auto value = (row.flags & kMemory) != 0 ? parse_memory(*given) : parse_unsigned(*given);
      if (!value || *value < static_cast<std::uint64_t>(row.min) || *value > static_cast<std::uint64_t>(row.max)) {
        return refused(row.name, *given, "allowed are " + std::to_string(row.min) + " to " + std::to_string(row.max));
      }
      standard = static_cast<long long>(*value);
    }
    settings.*row.field = standard;
    if (ValkeyModule_RegisterNumericConfig(ctx, row.name, standard, row.flags, row.min, row.max, get_number, set_number,
                                           nullptr, &(settings.*row.field)) != VALKEYMODULE_OK) {
      return "could not register largeobj." + std::string(row.name);
    }
  }
  return {};
}

std::string register_texts(ValkeyModuleCtx* ctx, Arguments& arguments, Settings& settings) {
  for (const auto& row : kTexts) {
    settings.*row.field = arguments.take(row.name).value_or(row.standard);
    if (ValkeyModule_RegisterStringConfig(ctx, row.name, (settings.*row.field).c_str(), kFixed, get_text, set_text,
                                          nullptr, &(settings.*row.field)) != VALKEYMODULE_OK) {
      return "could not register largeobj." + std::string(row.name);
    }
  }
  return {};
}

std::string register_switches(ValkeyModuleCtx* ctx, Arguments& arguments, Settings& settings) {
  for (const auto& row : kSwitches) {
    auto standard = row.standard;
    if (const auto given = arguments.take(row.name)) {
      const bool yes = equals_ignoring_case(*given, "yes");
      if (!yes && !equals_ignoring_case(*given, "no")) return refused(row.name, *given, "allowed are yes and no");
      standard = yes ? 1 : 0;
    }
    settings.*row.field = standard;
    if (ValkeyModule_RegisterBoolConfig(ctx, row.name, standard, VALKEYMODULE_CONFIG_DEFAULT, get_int, set_int, nullptr,
                                        &(settings.*row.field)) != VALKEYMODULE_OK) {
      return "could not register largeobj." + std::string(row.name);
    }
  }
  return {};
}

std::string register_choices(ValkeyModuleCtx* ctx, Arguments& arguments, Settings& settings) {
  for (auto& row : choices) {
    auto standard = row.standard;
    if (const auto given = arguments.take(row.name)) {
      std::string allowed = "allowed are";
      standard = -1;
      for (int i = 0; i < row.count; ++i) {
        const char* choice = row.choices[static_cast<std::size_t>(i)];
        if (equals_ignoring_case(*given, choice)) standard = i;
        allowed.append(i == 0 ? " " : ", ").append(choice);
      }
      if (standard < 0) return refused(row.name, *given, allowed);
    }
    settings.*row.field = standard;
    if (ValkeyModule_RegisterEnumConfig(ctx, row.name, standard, row.flags, row.choices.data(), kChoiceValues.data(),
                                        row.count, get_int, set_int, nullptr,
                                        &(settings.*row.field)) != VALKEYMODULE_OK) {
      return "could not register largeobj." + std::string(row.name);
    }
  }
  return {};
}

}  // namespace

std::string load_settings(ValkeyModuleCtx* ctx, const std::vector<std::string>& words, Settings& settings) {
  Arguments arguments;
  auto problem = arguments.read(words);
  for (auto* step : {register_numbers, register_texts, register_switches, register_choices}) {
    if (problem.empty()) problem = step(ctx, arguments, settings);
  }
  if (problem.empty()) problem = arguments.unknown();
  if (problem.empty() && ValkeyModule_LoadConfigs(ctx) != VALKEYMODULE_OK) {
    problem = "a largeobj.* directive is not valid: see the line above";
  }
  return problem;
}

}  // namespace keyferry::large_object
