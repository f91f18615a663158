#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "daemon/options.h"
#include "daemon/options_table.h"

// How a value of the configuration comes into its place in Options: the rows of options_table.cpp name the members on
// the way there.

namespace keyferry::daemon {

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

/// From a member to where the next one is: an optional section is made when one of its keys is set, a list stands for
/// its last item.
template <typename T>
auto& inside(T& member) {
  if constexpr (IsOptional<T>::value) {
    if (!member) member.emplace();
    return *member;
  } else if constexpr (IsVector<T>::value) {
    return member.back();
  } else {
    return member;
  }
}

template <typename T>
void put(T& member, const Value& value) {
  if constexpr (std::is_same_v<T, bool>) {
    member = value.flag;
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    member = static_cast<T>(value.number);
  } else if constexpr (std::is_same_v<T, base::Duration>) {
    member = value.duration;
  } else if constexpr (std::is_same_v<T, std::string>) {
    member = value.text;
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    member = value.list;
  } else if constexpr (std::is_same_v<T, HostPort>) {
    member = value.address;
  } else {
    static_assert(std::is_same_v<T, std::optional<HostPort>>);
    member.reset();
    if (!value.is_word) member = value.address;
  }
}

template <auto First, auto... Rest>
void set_in(auto& object, const Value& value) {
  if constexpr (sizeof...(Rest) == 0) {
    put(object.*First, value);
  } else {
    set_in<Rest...>(inside(object.*First), value);
  }
}

/// The setter of the member reached through these pointers.
template <auto... Path>
inline constexpr auto kSet = [](Options& options, const Value& value) { set_in<Path...>(options, value); };

}  // namespace keyferry::daemon
