// The clients of the benchmarks, in one program so that the generator is not what limits. Each mode prints one JSON
// object on stdout. The keys are bench:BYTES:NUMBER. A reply that is not the expected one ends the program with a
// message.
#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/crc32c.h"
#include "sockets.h"

namespace keyferry::bench {
namespace {

constexpr const char* kUsage =
    "small PORT CLIENTS RATE SECONDS              RATE requests a second in all, at fixed times whatever comes back\n"
    "gets PORT CLIENTS RATE SECONDS               the same with GETs alone; when each was due (Unix time) and its "
    "seconds\n"
    "queues PORT CONSUMERS PRODUCERS SETTERS PAUSE SECONDS  each consumer in BLPOP, each producer in MULTI LPUSH "
    "EXEC,\n"
    "                                             each setter in SET, PAUSE seconds after the last. Says ready, then "
    "the\n"
    "                                             result; consumers block on until stdin ends\n"
    "bulk PORT CLIENTS BYTES get|set SECONDS PACE PACE: bytes a second of all clients, 0 = without pause\n"
    "ops PORT BYTES get|set COUNT NUMBER          one client, the seconds of each operation. Says ready, waits for a "
    "line\n"
    "socket BYTES COUNT                           the same between two processes over loopback, nothing but bytes\n"
    "hash BYTES COUNT                             CRC-32C of that many bytes\n"
    "storm PORT|PATH THREADS AT_ONCE SECONDS      connect, PING, close, again and again\n";

double cpu_seconds() {
  double sum = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    ::getrusage(who, &usage);
    sum += static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
  }
  return sum;
}

/// `address`: a port of 127.0.0.1, or the path of a Unix socket.
int connect_from(const std::string& address, std::uint32_t source) {
  if (address.find('/') != std::string::npos) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un path{};
    path.sun_family = AF_UNIX;
    address.copy(path.sun_path, sizeof path.sun_path - 1);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&path), sizeof path) != 0)
      die("connecting to " + address + ": " + std::strerror(errno));
    return fd;
  }
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  // Ports of one address are used up by connections in TIME_WAIT within seconds: many addresses take turns.
  ::setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + source % 200);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0)
    die(std::string("bind: ") + std::strerror(errno));
  place.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address)));
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0)
    die("connecting to port " + address + ": " + std::strerror(errno));
  return fd;
}

/// One client that moves one value again and again.
class Mover {
 public:
  Mover(int port, std::size_t bytes, bool set, int number)
      : fd_(connect_to(port)), set_(set), texts_(bytes, number), bytes_(bytes, static_cast<char>('a' + number % 26)) {}
  ~Mover() { ::close(fd_); }
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  void store() {
    send_all(fd_, {texts_.set, {bytes_.data(), bytes_.size()}, "\r\n"});
    expect(fd_, "+OK\r\n");
  }
  void fetch() {
    send_all(fd_, texts_.get.data(), texts_.get.size());
    expect(fd_, texts_.header);
    receive_all(fd_, bytes_.data(), bytes_.size());
    expect(fd_, "\r\n");
  }
  void once() { set_ ? store() : fetch(); }

 private:
  int fd_;
  bool set_;
  ValueTexts texts_;
  Pages bytes_;
};

void bulk(int port, int clients, std::size_t bytes, bool set, double lasting, double pace) {
  std::vector<std::unique_ptr<Mover>> movers;
  for (int i = 0; i < clients; ++i) movers.push_back(std::make_unique<Mover>(port, bytes, set, i));
  for (const auto& mover : movers) mover->store();
  std::printf("ready\n");
  std::fflush(stdout);
  std::atomic<std::uint64_t> moved{0};
  const double cpu = cpu_seconds();
  const Clock::time_point begin = Clock::now();
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) {
    threads.emplace_back([&, i] {
      for (std::uint64_t turn = 0;; ++turn) {
        if (pace > 0) {
          const double at = static_cast<double>(turn * static_cast<std::uint64_t>(clients) + static_cast<unsigned>(i)) *
                            static_cast<double>(bytes) / pace;
          if (at >= lasting) return;
          std::this_thread::sleep_until(begin +
                                        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(at)));
        }
        if (seconds(Clock::now() - begin) >= lasting) return;
        movers[static_cast<std::size_t>(i)]->once();
        moved += bytes;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("{\"bytes\": %llu, \"seconds\": %.6f, \"cpu\": %.6f}\n", static_cast<unsigned long long>(moved.load()),
              seconds(Clock::now() - begin), cpu_seconds() - cpu);
}

void print_ops(const std::vector<double>& each, std::size_t bytes, double cpu) {
  std::printf("{\"bytes\": %zu, \"cpu\": %.6f, \"each\": ", bytes * each.size(), cpu);
  print_list(each);
  std::printf("}\n");
}

template <typename Action>
std::vector<double> time_each(int count, Action action) {
  std::vector<double> each;
  for (int i = 0; i < count; ++i) {
    const Clock::time_point begin = Clock::now();
    action();
    each.push_back(seconds(Clock::now() - begin));
  }
  return each;
}

void ops(int port, std::size_t bytes, bool set, int count, int number) {
  Mover mover(port, bytes, set, number);
  mover.store();
  mover.once();
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() != '\n' && std::feof(stdin) == 0) {
  }
  const double cpu = cpu_seconds();
  const std::vector<double> each = time_each(count, [&] { mover.once(); });
  print_ops(each, bytes, cpu_seconds() - cpu);
}

/// A value asked for by one byte, as a GET would be, with nothing behind the socket but its sender.
void socket_rate(std::size_t bytes, int count) {
  const auto [listener, port] = listen_anywhere();
  const pid_t child = ::fork();
  if (child < 0) die(std::string("fork: ") + std::strerror(errno));
  if (child == 0) {
    const int fd = ::accept(listener, nullptr, nullptr);
    Pages value(bytes, 'x');
    char ask = 0;
    while (::recv(fd, &ask, 1, 0) == 1) send_all(fd, value.data(), value.size());
    std::_Exit(0);
  }
  Pages value(bytes, 'y');
  const int fd = connect_to(port);
  ::close(listener);  // a child that ends before it accepts ends the connection, too
  const std::vector<double> each = time_each(count + 1, [&] {
    send_all(fd, "g", 1);
    receive_all(fd, value.data(), value.size());
  });
  ::close(fd);
  ::waitpid(child, nullptr, 0);
  // The child's whole life is counted: it does nothing else.
  print_ops({each.begin() + 1, each.end()}, bytes, cpu_seconds() * count / (count + 1));
}

void hash_rate(std::size_t bytes, int count) {
  const std::string value(bytes, 'h');
  std::uint32_t crc = 0;
  const double cpu = cpu_seconds();
  const std::vector<double> each = time_each(count, [&] { crc ^= base::crc32c(base::as_bytes(value)); });
  if (crc == 1) std::fprintf(stderr, "\n");
  print_ops(each, bytes, cpu_seconds() - cpu);
}

/// Many small clients on one thread. Times count from when a request was due, so that a stall hides no request.
class Small {
 public:
  /// `gets`: no SET among them but one of each client beforehand, and each one's time is printed.
  Small(int port, int clients, double rate, bool gets)
      : epoll_(::epoll_create1(EPOLL_CLOEXEC)), interval_(1 / rate), gets_(gets) {
    links_.resize(static_cast<std::size_t>(clients));
    for (std::size_t i = 0; i < links_.size(); ++i) {
      links_[i].fd = connect_to(port);
      const std::string key = "small:" + std::to_string(i);
      links_[i].set = command({"SET", key, std::string(kValue, 's')});
      links_[i].get = command({"GET", key});
      if (gets_) {
        send_all(links_[i].fd, links_[i].set.data(), links_[i].set.size());
        expect(links_[i].fd, "+OK\r\n");
      }
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u64 = i;
      ::epoll_ctl(epoll_, EPOLL_CTL_ADD, links_[i].fd, &event);
    }
  }

  void run(double lasting) {
    const auto total = static_cast<std::uint64_t>(lasting / interval_);
    begin_ = Clock::now();
    began_ = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    const Clock::time_point end = begin_ + std::chrono::seconds(60) +
                                  std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(lasting));
    while (answered_ < total) {
      const Clock::time_point now = Clock::now();
      if (now > end) die(std::to_string(total - answered_) + " requests were never answered");
      while (sent_ < total && due(sent_) <= now) send_one();
      wait(sent_ < total ? due(sent_) - Clock::now() : std::chrono::milliseconds(100));
    }
    report();
  }

 private:
  static constexpr std::size_t kValue = 64;
  struct Link {
    int fd = -1;
    std::string set, get;
    std::uint64_t asked = 0;
    std::deque<std::pair<std::uint64_t, std::size_t>> waiting;  // number of the request, bytes of its reply to come
  };

  Clock::time_point due(std::uint64_t number) const {
    return begin_ + std::chrono::duration_cast<Clock::duration>(
                        std::chrono::duration<double>(static_cast<double>(number) * interval_));
  }

  void send_one() {
    Link& link = links_[sent_ % links_.size()];
    const bool set = !gets_ && link.asked++ % 2 == 0;
    link.waiting.emplace_back(sent_, set ? 5 : kValue + 7);
    late_.push_back(seconds(Clock::now() - due(sent_)));
    ++sent_;
    send_all(link.fd, set ? link.set.data() : link.get.data(), set ? link.set.size() : link.get.size());
  }

  void wait(Clock::duration limit) {
    epoll_event events[256];
    const auto ns = std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::nanoseconds>(limit).count());
    const timespec time{ns / 1'000'000'000, ns % 1'000'000'000};
    const int count = ::epoll_pwait2(epoll_, events, 256, &time, nullptr);
    for (int i = 0; i < count; ++i) read(links_[events[i].data.u64]);
  }

  void read(Link& link) {
    char bytes[4096];
    const ssize_t got = ::recv(link.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got <= 0) die("a small client was closed");
    if (bytes[0] == '-') die("a small client got " + std::string(bytes, static_cast<std::size_t>(got)));
    auto left = static_cast<std::size_t>(got);
    while (left > 0) {
      if (link.waiting.empty()) die("a reply that nobody asked for");
      auto& [number, missing] = link.waiting.front();
      const std::size_t taken = std::min(left, missing);
      left -= taken;
      missing -= taken;
      if (missing != 0) continue;
      took_.push_back(seconds(Clock::now() - due(number)));
      if (gets_) each_.emplace_back(began_ + seconds(due(number) - begin_), took_.back());
      link.waiting.pop_front();
      ++answered_;
    }
  }

  static double quantile(std::vector<double>& values, double part) {
    std::sort(values.begin(), values.end());
    return values[std::min(values.size() - 1, static_cast<std::size_t>(part * static_cast<double>(values.size())))];
  }

  void report() {
    if (gets_) {
      std::printf("{\"generator_p99\": %.9f, \"each\": [", quantile(late_, 0.99));
      for (const auto& [when, took] : each_)
        std::printf("%s[%.6f, %.6f]", &when == &each_.front().first ? "" : ", ", when, took);
      std::printf("]}\n");
      return;
    }
    std::printf(
        "{\"count\": %zu, \"p50\": %.9f, \"p99\": %.9f, \"p99.9\": %.9f, \"max\": %.9f, \"generator_p99.9\": "
        "%.9f, \"cpu\": %.3f}\n",
        took_.size(), quantile(took_, 0.5), quantile(took_, 0.99), quantile(took_, 0.999), quantile(took_, 1),
        quantile(late_, 0.999), cpu_seconds());
  }

  int epoll_;
  double interval_;
  bool gets_;
  std::vector<Link> links_;
  Clock::time_point begin_;
  std::uint64_t sent_ = 0;
  std::uint64_t answered_ = 0;
  std::vector<double> took_;
  std::vector<double> late_;
  double began_ = 0;                             // begin_ as Unix time
  std::vector<std::pair<double, double>> each_;  // when it was due, what it took
};

/// Consumers that block on a list each, producers that push to them in transactions and clients that only SET, on one
/// thread.
class Queues {
 public:
  Queues(int port, int consumers, int producers, int setters, double pause)
      : epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        pause_(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(pause))) {
    const auto add = [&](std::size_t kind, int count, const auto& text) {
      for (int i = 0; i < count; ++i) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u64 = links_.size();
        links_.push_back({connect_to(port), kind, text(i)});
        ::epoll_ctl(epoll_, EPOLL_CTL_ADD, links_.back().fd, &event);
      }
    };
    const auto queue = [&](int number) { return "queue:" + std::to_string(number % producers); };
    add(kConsumer, consumers, [&](int i) { return command({"BLPOP", queue(i), "0"}); });
    add(kProducer, producers, [&](int i) {
      return command({"MULTI"}) + command({"LPUSH", queue(i), "item"}) + command({"EXEC"});
    });
    add(kSetter, setters, [&](int i) { return command({"SET", "set:" + std::to_string(i), "value"}); });
  }

  void run(double lasting) {
    const Clock::time_point begin = Clock::now();
    const Clock::time_point end =
        begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(lasting));
    for (Link& link : links_) link.due = begin;
    std::puts("ready");
    std::fflush(stdout);
    for (std::size_t waiting = 1; waiting > 0;) {
      const Clock::time_point now = Clock::now();
      if (now > end + std::chrono::seconds(60)) die("a transaction or SET was never answered");
      waiting = 0;
      for (Link& link : links_) {
        if (!link.asked && link.due <= now && (now < end || link.kind == kConsumer)) ask(link);
        if (link.kind != kConsumer && (link.asked || now < end)) ++waiting;
      }
      wait();
    }
    report();
  }

 private:
  enum : std::size_t { kConsumer, kProducer, kSetter };
  static constexpr int kLines[] = {5, 4, 1};  // of the reply to what each asks
  struct Link {
    int fd;
    std::size_t kind;
    std::string text;
    bool asked = false;
    int lines = 0;
    Clock::time_point due = {};
    Clock::time_point begin = {};
  };

  static void ask(Link& link) {
    link.asked = true;
    link.lines = 0;
    link.begin = Clock::now();
    send_all(link.fd, link.text.data(), link.text.size());
  }

  void wait() {
    epoll_event events[256];
    const int count = ::epoll_wait(epoll_, events, 256, 5);
    for (int i = 0; i < count; ++i) read(links_[events[i].data.u64]);
  }

  void read(Link& link) {
    char bytes[4096];
    const ssize_t got = ::recv(link.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got <= 0) die("a client of a queue was closed");
    const std::string text(bytes, static_cast<std::size_t>(got));
    if (text.front() == '-' || text.find("\n-") != std::string::npos) die("a client of a queue got " + text);
    link.lines += static_cast<int>(std::count(text.begin(), text.end(), '\n'));
    if (link.lines < kLines[link.kind]) return;
    const Clock::time_point now = Clock::now();
    took_[link.kind].push_back(seconds(now - link.begin));
    link.asked = false;
    link.due = link.kind == kConsumer ? now : now + pause_;
  }

  void report() {
    std::vector<double>& took = took_[kProducer];
    std::sort(took.begin(), took.end());
    std::printf("{\"taken\": %zu, \"transactions\": %zu, \"sets\": %zu, \"p50\": %.6f, \"max\": %.6f}\n",
                took_[kConsumer].size(), took.size(), took_[kSetter].size(), took[took.size() / 2], took.back());
    std::fflush(stdout);
  }

  int epoll_;
  Clock::duration pause_;
  std::vector<Link> links_;
  std::vector<double> took_[3];
};

/// Connects, PINGs and closes, `at_once` connections of each thread under way at any time.
void storm(const std::string& address, int threads, int at_once, double lasting) {
  std::atomic<std::uint64_t> done{0};
  std::vector<double> longest(static_cast<std::size_t>(threads));
  const double cpu = cpu_seconds();
  const Clock::time_point begin = Clock::now();
  const auto one_thread = [&](std::size_t thread) {
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    std::vector<Clock::time_point> begun(static_cast<std::size_t>(at_once));
    std::uint32_t source = static_cast<std::uint32_t>(thread) * 100;
    const auto open = [&](std::uint32_t place) {
      begun[place] = Clock::now();
      const int fd = connect_from(address, source++);
      send_all(fd, "PING\r\n", 6);
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u64 = static_cast<std::uint64_t>(place) << 32 | static_cast<std::uint32_t>(fd);
      ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    };
    for (int i = 0; i < at_once; ++i) open(static_cast<std::uint32_t>(i));
    while (seconds(Clock::now() - begin) < lasting) {
      epoll_event events[64];
      const int count = ::epoll_wait(epoll, events, 64, 1000);
      for (int i = 0; i < count; ++i) {
        const auto place = static_cast<std::uint32_t>(events[i].data.u64 >> 32);
        const auto fd = static_cast<int>(events[i].data.u64 & 0xffffffff);
        expect(fd, "+PONG\r\n");
        ::close(fd);
        ++done;
        longest[thread] = std::max(longest[thread], seconds(Clock::now() - begun[place]));
        open(place);
      }
    }
  };
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) running.emplace_back(one_thread, static_cast<std::size_t>(i));
  for (std::thread& thread : running) thread.join();
  std::printf("{\"connects\": %llu, \"seconds\": %.6f, \"longest\": %.6f, \"cpu\": %.3f}\n",
              static_cast<unsigned long long>(done.load()), seconds(Clock::now() - begin),
              *std::max_element(longest.begin(), longest.end()), cpu_seconds() - cpu);
}

}  // namespace
}  // namespace keyferry::bench

int main(int argc, char** argv) {
  using namespace keyferry::bench;
  const std::string mode = argc > 1 ? argv[1] : "";
  const auto number = [&](int at) { return std::atoll(argv[at]); };
  const auto bytes = [&](int at) { return static_cast<std::size_t>(std::atoll(argv[at])); };
  const auto count = [&](int at) { return std::atoi(argv[at]); };
  if (mode == "small" && argc == 6) {
    Small(count(2), count(3), static_cast<double>(number(4)), false).run(std::atof(argv[5]));
  } else if (mode == "gets" && argc == 6) {
    Small(count(2), count(3), static_cast<double>(number(4)), true).run(std::atof(argv[5]));
  } else if (mode == "queues" && argc == 8) {
    Queues(count(2), count(3), count(4), count(5), std::atof(argv[6])).run(std::atof(argv[7]));
    while (std::getchar() != EOF) {
    }
  } else if (mode == "bulk" && argc == 8) {
    bulk(count(2), count(3), bytes(4), std::string(argv[5]) == "set", std::atof(argv[6]), std::atof(argv[7]));
  } else if (mode == "ops" && argc == 7) {
    ops(count(2), bytes(3), std::string(argv[4]) == "set", count(5), count(6));
  } else if (mode == "socket" && argc == 4) {
    socket_rate(bytes(2), count(3));
  } else if (mode == "hash" && argc == 4) {
    hash_rate(bytes(2), count(3));
  } else if (mode == "storm" && argc == 6) {
    storm(argv[2], count(3), count(4), std::atof(argv[5]));
  } else {
    die(std::string("these arguments are not known. Fix: one of\n") + kUsage);
  }
}
