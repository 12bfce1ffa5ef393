#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct Shape {
    std::string name;
    explicit Shape(std::string n) : name(std::move(n)) {}
    virtual double area() const = 0;
    virtual ~Shape() = default;
};

struct Square : Shape {
    double side;
    explicit Square(double s) : Shape("square"), side(s) {}
    double area() const override { return side * side; }
};

struct Circle : Shape {
    double radius;
    explicit Circle(double r) : Shape("circle"), radius(r) {}
    double area() const override { return 3.0 * radius * radius; }
};

static double largest;

void remember(const Shape &shape)
{
    double area = shape.area();
    if (area > 100)
        throw std::runtime_error(shape.name + " is too large");
    if (area > largest)
        largest = area;
}

int main()
{
    std::vector<std::unique_ptr<Shape>> shapes;
    for (int i = 1; i < 5; i++) {
        shapes.push_back(std::make_unique<Square>(i));
        shapes.push_back(std::make_unique<Circle>(i * 2));
    }
    int failed = 0;
    for (const auto &shape : shapes) {
        try {
            remember(*shape);
        } catch (const std::exception &e) {
            failed++;
        }
    }
    std::printf("%g %d\n", largest, failed);
    return 0;
}
