#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace keyferry::base {

/// Why something did not work: one message that names the cause and, where there is one, the fix; and the number that
/// the library below gave (a negative libfabric code, an errno), 0 if none.
struct Error {
  std::string message;
  int code = 0;
};

/// The outcome of a data path: a value or an Error, never an exception.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& value() { return std::get<0>(state_); }
  const T& value() const { return std::get<0>(state_); }
  T* operator->() { return &value(); }
  T& operator*() { return value(); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  explicit operator bool() const { return !error_.has_value(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace keyferry::base
