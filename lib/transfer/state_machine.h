#pragma once

#include <cstdint>

namespace keyferry::transfer {

/// Transitions that were asked for and refused since the program began; any thread.
std::uint64_t illegal_transitions();
/// Counts and logs one; with KEYFERRY_DEBUG it aborts.
void report_illegal_transition(const char* machine, const char* from, const char* to);

/// One state, changed through move() alone. `Rules` gives: State, kName, name(State) and allowed(from, to). Engine's
/// thread only.
template <typename Rules>
class StateMachine {
 public:
  using State = typename Rules::State;

  explicit StateMachine(State initial) : state_(initial) {}

  State state() const { return state_; }
  const char* name() const { return Rules::name(state_); }
  bool in(State state) const { return state_ == state; }

  /// False, and nothing has changed, if the rules don't have this transition.
  bool move(State to) {
    if (!Rules::allowed(state_, to)) {
      report_illegal_transition(Rules::kName, Rules::name(state_), Rules::name(to));
      return false;
    }
    state_ = to;
    return true;
  }

 private:
  State state_;
};

}  // namespace keyferry::transfer
