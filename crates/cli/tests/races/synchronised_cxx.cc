// Atomics by plain moves, queues, futures, shared pointers, local statics, shared mutexes.
#include <atomic>
#include <thread>
#include <mutex>
#include <shared_mutex>
#include <future>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <vector>
#include <string>
#include <map>
#include <deque>
static std::atomic<bool> flag; static int data; static std::shared_ptr<int> shared = std::make_shared<int>(3);
struct Queue { std::mutex m; std::condition_variable c; std::deque<std::string> q; void push(std::string s) { std::lock_guard<std::mutex> g(m); q.push_back(std::move(s)); c.notify_one(); } std::string pop() { std::unique_lock<std::mutex> g(m); c.wait(g, [&]{ return !q.empty(); }); auto s = q.front(); q.pop_front(); return s; } };
struct Box { std::atomic<int> n{0}; int v = 0; };
static int& instance() { static int x = [] { return 7; }(); return x; }
int main() {
    Queue q; auto box = std::make_unique<Box>();
    std::thread a([&] { data = 5; flag.store(true, std::memory_order_release); box->v = 4; box->n.store(1, std::memory_order_release); for (int i = 0; i < 100; i++) q.push("item " + std::to_string(i)); auto s = shared; instance()++; });
    std::thread b([&] { while (!flag.load(std::memory_order_acquire)) std::this_thread::yield(); volatile int x = data; while (!box->n.load(std::memory_order_acquire)) std::this_thread::yield(); x = box->v; size_t n = 0; for (int i = 0; i < 100; i++) n += q.pop().size(); auto s = shared; printf("%zu %d\n", n, *s + x * 0); });
    a.join(); b.join();
    auto f = std::async(std::launch::async, [] { return std::string("future"); });
    printf("%s\n", f.get().c_str());
    std::shared_mutex sm; std::map<int, int> m; std::vector<std::thread> v;
    for (int i = 0; i < 4; i++) v.emplace_back([&, i] { for (int j = 0; j < 50; j++) { if (j % 5 == i) { std::unique_lock l(sm); m[j] = i; } else { std::shared_lock l(sm); (void)m.count(j); } } });
    for (auto &t : v) t.join();
    printf("%zu\n", m.size());
}
