#pragma once

// librdmacm and the part of libibverbs that the transport uses, scripted: a program that links scripted_rdma.cpp gets
// these instead of the libraries, for what no device here can be told to do. The server at the other end announces a
// window, answers feature probes, and otherwise says what the test says.

#include <rdma/rdma_cma.h>

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace keyferry::test {

/// One at a time; one thread. Connections that the program makes meanwhile are numbered from 0.
class ScriptedRdma {
 public:
  enum class Step { kAddress, kRoute, kConnect };

  ScriptedRdma();
  ~ScriptedRdma();
  ScriptedRdma(const ScriptedRdma&) = delete;
  ScriptedRdma& operator=(const ScriptedRdma&) = delete;

  /// Instead of going well, that step ends with this event; RDMA_CM_EVENT_MULTICAST_JOIN stands for none at all.
  void answer(Step step, rdma_cm_event_type event) { answers_[step] = event; }
  /// Whether a connection is followed by the server's announcement, and a disconnect by its answer.
  bool announces = true;
  bool says_farewell = true;
  /// It closes at the first write, as one in protected mode does.
  bool hangs_up = false;

  /// What the connection manager says now.
  void event(std::size_t link, rdma_cm_event_type event);
  /// These bytes are there to be read.
  void reply(std::size_t link, std::string_view bytes);
  /// As the kernel does it: every connection hears of it, each completion queue's descriptor is readable for ever, and
  /// nothing but destroying works any more. `told`: the connection manager says so at once; else not before
  /// tell_removal(), so that the completion queue shows it first.
  void remove_device(bool told = true);
  void tell_removal();
  /// How the queue of a removed device shows it: reading its descriptor fails; or that says only that nothing is there,
  /// and arming fails, which asks for it in vain.
  bool descriptor_fails = true;

  /// How many completion vectors the device has; the one that each connection's queue was made with.
  int vectors = 1;
  std::vector<int> vectors_taken;

  std::size_t links() const { return links_.size(); }
  /// What the client has written in notified writes.
  const std::string& received(std::size_t link) const;
  /// How many writes with an immediate and how many Keepalives the client has sent.
  std::size_t notices(std::size_t link) const;
  std::size_t keepalives(std::size_t link) const;
  /// Everything that was made and not destroyed yet.
  std::size_t objects() const { return objects_; }
  /// How often a queue was asked for something after its device was removed.
  std::size_t asked_in_vain() const { return asked_in_vain_; }

  struct Link;
  class Library;

 private:
  friend class Library;
  std::map<Step, rdma_cm_event_type> answers_;
  std::vector<std::unique_ptr<Link>> links_;
  bool removed_ = false;
  std::size_t objects_ = 0;
  std::size_t asked_in_vain_ = 0;
};

}  // namespace keyferry::test
