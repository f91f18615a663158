#pragma once

#include <string>

namespace keyferry::daemon {

/// config/keyferry.yaml: every key with its default and what it may be; keys without a default are commented out.
std::string default_yaml();

/// config/reference.md: the same as tables, and the keys that this version refuses because it does not have them.
std::string reference_markdown();

/// --help-config: a key, its default and its meaning per paragraph, for a terminal.
std::string config_help();

}  // namespace keyferry::daemon
