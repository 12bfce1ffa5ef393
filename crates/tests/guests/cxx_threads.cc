// relive: threads=yes
// The C++ thread library: atomics of several sizes, shared_mutex, condition_variable_any,
// promises, call_once, packaged tasks, and a small work-stealing pool.
#include "check.h"
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <numeric>
#include <shared_mutex>
#include <thread>
#include <vector>

class Pool {
    std::vector<std::deque<std::function<void()>>> queues;
    std::mutex mutex;
    std::condition_variable wake;
    bool stop = false;
    std::vector<std::thread> threads;

    void work(size_t me) {
        for (;;) {
            std::function<void()> task;
            {
                std::unique_lock lock(mutex);
                wake.wait(lock, [this] {
                    for (auto &q : queues)
                        if (!q.empty()) return true;
                    return stop;
                });
                for (size_t i = 0; i < queues.size() && !task; i++) {
                    auto &q = queues[(me + i) % queues.size()];
                    if (q.empty()) continue;
                    if (i == 0) task = std::move(q.back()), q.pop_back();
                    else task = std::move(q.front()), q.pop_front();
                }
                if (!task) return;
            }
            task();
        }
    }

public:
    explicit Pool(size_t n) : queues(n) {
        for (size_t i = 0; i < n; i++) threads.emplace_back([this, i] { work(i); });
    }
    template <class F> std::future<int> run(size_t on, F f) {
        auto task = std::make_shared<std::packaged_task<int()>>(std::move(f));
        std::lock_guard lock(mutex);
        queues[on % queues.size()].push_back([task] { (*task)(); });
        wake.notify_one();
        return task->get_future();
    }
    ~Pool() {
        {
            std::lock_guard lock(mutex);
            stop = true;
        }
        wake.notify_all();
        for (auto &t : threads) t.join();
    }
};

int main() {
    int total = 0;
    {
        Pool pool(4);
        std::vector<std::future<int>> results;
        for (int i = 0; i < 300; i++)
            results.push_back(pool.run(static_cast<size_t>(i % 2), [i] {
                std::vector<int> v(100);
                std::iota(v.begin(), v.end(), i);
                return std::accumulate(v.begin(), v.end(), 0) % 1000;
            }));
        for (auto &r : results) total += r.get();
    }
    int want = 0;
    for (int i = 0; i < 300; i++) want += (100 * i + 4950) % 1000;
    CHECK(total == want);

    std::atomic<uint8_t> small{0};
    std::atomic<uint64_t> wide{0};
    std::atomic<double> real{0};
    std::shared_mutex shared;
    std::once_flag once;
    int onces = 0;
    long table[2] = {0, 0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&, t] {
            std::call_once(once, [&] { onces++; });
            for (int i = 0; i < 1000; i++) {
                small++;
                wide.fetch_xor(uint64_t{1} << (i % 64));
                double old = real.load();
                while (!real.compare_exchange_weak(old, old + 0.5)) {
                }
                if (i % 10 == t) {
                    std::unique_lock lock(shared);
                    table[0]++;
                    table[1]--;
                } else {
                    std::shared_lock lock(shared);
                    CHECK(table[0] + table[1] == 0);
                }
            }
        });
    for (auto &t : threads) t.join();
    CHECK(onces == 1 && small == static_cast<uint8_t>(4000) && wide == 0 && real == 2000.0 && table[0] == 400);
    std::promise<int> promise;
    std::thread setter([&] { promise.set_value(42); });
    CHECK(promise.get_future().get() == 42);
    setter.join();
    return ok();
}
