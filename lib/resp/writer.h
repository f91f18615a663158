#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "resp/protocol.h"
#include "resp/value.h"

namespace keyferry::resp {

// Each function appends to `out`; nothing else is touched, so any thread may call them on its own string. What RESP2
// lacks is written in the form that Valkey gives a RESP2 client, from one table (R4, R12):
//   null -> $-1 / *-1, map -> array of twice the length, set and push -> array, boolean -> :1 / :0, double and big
//   number -> bulk, verbatim -> bulk without its format, blob error -> simple error, attribute -> nothing.

/// Status and error lines. CR and LF become blanks, so no text can break the framing. An error's text starts with its
/// code: "ERR ...".
void append_simple(std::string& out, std::string_view text);
void append_error(std::string& out, std::string_view text);

void append_integer(std::string& out, int64_t value);
void append_bulk(std::string& out, std::string_view bytes);
/// For a body that is sent from elsewhere: the `$length` line. CRLF has to follow the body.
void append_bulk_header(std::string& out, uint64_t length);

void append_null(std::string& out, Protocol protocol);
void append_null_array(std::string& out, Protocol protocol);

/// Headers of aggregates: `count` elements follow, for a map twice as many.
void append_array_header(std::string& out, uint64_t count);
void append_map_header(std::string& out, Protocol protocol, uint64_t pairs);
void append_set_header(std::string& out, Protocol protocol, uint64_t count);
void append_push_header(std::string& out, Protocol protocol, uint64_t count);
/// False in RESP2, which has no attributes: nothing was written and the pairs must not be either.
[[nodiscard]] bool append_attribute_header(std::string& out, Protocol protocol, uint64_t pairs);

void append_boolean(std::string& out, Protocol protocol, bool value);
/// The shortest text that reads back as `value`; inf, -inf and nan by name.
void append_double(std::string& out, Protocol protocol, double value);
/// `digits`: an optional sign and digits, as received.
void append_big_number(std::string& out, Protocol protocol, std::string_view digits);
/// `format`: exactly three bytes ("txt", "mkd"); anything else is written as "txt".
void append_verbatim(std::string& out, Protocol protocol, std::string_view format, std::string_view text);
void append_blob_error(std::string& out, Protocol protocol, std::string_view text);

/// A whole value with its attributes and children, converted throughout when the protocol is RESP2.
void append_value(std::string& out, Protocol protocol, const Value& value);

/// A command as clients send it: an array of bulk strings.
void append_command_header(std::string& out, size_t argc);
void append_command(std::string& out, std::span<const std::string_view> args);
void append_command(std::string& out, std::initializer_list<std::string_view> args);

}  // namespace keyferry::resp
