#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace keyferry::base {

template <typename Signature>
class UniqueFunction;

/// A callable that is moved, not copied, so that a message between threads can carry buffers and handles that have one
/// owner (std::move_only_function is C++23). Callables up to 56 bytes live inside it. Calling an empty one is
/// undefined.
template <typename R, typename... Args>
class UniqueFunction<R(Args...)> {
 public:
  UniqueFunction() = default;
  UniqueFunction(std::nullptr_t) {}

  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, UniqueFunction> &&
           std::is_invocable_r_v<R, std::remove_cvref_t<F>&, Args...>) UniqueFunction(F&& callable) {
    using Callable = std::remove_cvref_t<F>;
    if constexpr (fits_inside<Callable>()) {
      new (&storage_) Callable(std::forward<F>(callable));
      table_ = &kInside<Callable>;
    } else {
      new (&storage_) Callable*(new Callable(std::forward<F>(callable)));
      table_ = &kOutside<Callable>;
    }
  }

  UniqueFunction(UniqueFunction&& other) noexcept { take(other); }
  UniqueFunction& operator=(UniqueFunction&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  UniqueFunction(const UniqueFunction&) = delete;
  UniqueFunction& operator=(const UniqueFunction&) = delete;
  ~UniqueFunction() { reset(); }

  explicit operator bool() const { return table_ != nullptr; }
  R operator()(Args... args) { return table_->call(&storage_, std::forward<Args>(args)...); }

  void reset() {
    if (table_ != nullptr) std::exchange(table_, nullptr)->destroy(&storage_);
  }

 private:
  struct Table {
    R (*call)(void*, Args&&...);
    void (*move)(void* from, void* to) noexcept;
    void (*destroy)(void*) noexcept;
  };
  static constexpr std::size_t kRoom = 56;

  template <typename F>
  static constexpr bool fits_inside() {
    return sizeof(F) <= kRoom && alignof(F) <= alignof(std::max_align_t) && std::is_nothrow_move_constructible_v<F>;
  }

  template <typename F>
  static constexpr Table kInside{
      [](void* self, Args&&... args) -> R { return (*static_cast<F*>(self))(std::forward<Args>(args)...); },
      [](void* from, void* to) noexcept {
        new (to) F(std::move(*static_cast<F*>(from)));
        static_cast<F*>(from)->~F();
      },
      [](void* self) noexcept { static_cast<F*>(self)->~F(); }};

  template <typename F>
  static constexpr Table kOutside{
      [](void* self, Args&&... args) -> R { return (**static_cast<F**>(self))(std::forward<Args>(args)...); },
      [](void* from, void* to) noexcept { new (to) F*(*static_cast<F**>(from)); },
      [](void* self) noexcept { delete *static_cast<F**>(self); }};

  void take(UniqueFunction& other) noexcept {
    table_ = std::exchange(other.table_, nullptr);
    if (table_ != nullptr) table_->move(&other.storage_, &storage_);
  }

  alignas(std::max_align_t) std::byte storage_[kRoom];
  const Table* table_ = nullptr;
};

/// A piece of work that is handed to a thread and run there once.
using Task = UniqueFunction<void()>;

}  // namespace keyferry::base
