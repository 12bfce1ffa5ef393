//! Values of many kinds on their way into functions and out of them: compiled by a test, not with it.
#![allow(dead_code)]
use std::hint::black_box;
#[derive(Clone, Copy)]
pub enum Shape {
    Circle(f32),
    Square(f32),
    Nothing,
}
#[derive(Clone, Copy)]
pub enum Mixed {
    A(u8),
    B(u32),
    C { x: u16, y: u16 },
}
#[derive(Clone, Copy)]
pub enum Kind {
    One,
    Two,
    Three,
}
pub struct Big {
    a: u64,
    b: u32,
    name: &'static str,
    tags: Vec<u32>,
}
#[derive(Clone, Copy)]
pub struct Rgb(u8, u8, u8);
#[derive(Clone, Copy)]
pub struct Two {
    a: u32,
    b: u8,
    c: u64,
}
#[unsafe(no_mangle)]
#[inline(never)]
pub fn opt32(v: Option<u32>, k: Kind) -> Option<u32> {
    black_box(v).map(|x| x + k as u32)
}
#[unsafe(no_mangle)]
#[inline(never)]
pub fn opt64(v: Option<u64>) -> Option<u64> {
    black_box(v).map(|x| x + 1)
}
#[unsafe(no_mangle)]
#[inline(never)]
pub fn optref(v: Option<&u32>) -> Option<&u32> {
    black_box(v)
}
#[unsafe(no_mangle)]
#[inline(never)]
pub fn optstr(v: Option<&str>) -> Option<&str> {
    black_box(v)
}
#[unsafe(no_mangle)]
#[inline(never)]
pub fn result(v: Result<u32, u32>, w: u8) -> Result<u8, u8> {
    black_box(v).map(|x| x as u8 + w).map_err(|e| e as u8)
}
#[unsafe(no_mangle)]
#[inline(never)]
pub fn result2(v: Result<u64, String>) -> Result<String, u64> {
    match black_box(v) {
        Ok(n) => Err(n),
        Err(s) => Ok(s),
    }
}
#[unsafe(no_mangle)]
#[inline(never)]
pub fn shape(v: Shape, n: u32) -> Shape {
    black_box(n);
    black_box(v)
}
#[unsafe(no_mangle)]
#[inline(never)]
pub fn mixed(v: Mixed, n: u32) -> Mixed {
    black_box(n);
    black_box(v)
}
#[unsafe(no_mangle)]
#[inline(never)]
pub fn big(v: Big, n: u32) -> Big {
    black_box(n);
    black_box(v)
}
#[unsafe(no_mangle)]
#[inline(never)]
pub fn rgb(v: Rgb, n: u32) -> Rgb {
    black_box(n);
    black_box(v)
}
#[unsafe(no_mangle)]
#[inline(never)]
pub fn two(v: Two, n: u32) -> Two {
    black_box(n);
    black_box(v)
}
#[unsafe(no_mangle)]
#[inline(never)]
pub fn arr(v: [u32; 2], w: [u8; 3], n: u32) -> [u32; 4] {
    black_box((v, w));
    [n, n + 1, n + 2, n + 3]
}
#[unsafe(no_mangle)]
#[inline(never)]
pub fn floats(v: (f32, f32), w: [f32; 2], n: u32) -> (f64, u8) {
    black_box((w, n));
    (v.0 as f64, n as u8)
}
#[unsafe(no_mangle)]
#[inline(never)]
pub fn strings(v: String, w: &str, x: Vec<u16>, y: Option<Box<u32>>) -> Option<String> {
    black_box((w, x, y));
    Some(v)
}
#[unsafe(no_mangle)]
#[inline(never)]
pub fn optopt(v: Option<Option<bool>>, w: Option<char>, n: u32) -> Option<Kind> {
    black_box((v, w, n));
    Some(Kind::Two)
}
#[unsafe(no_mangle)]
#[inline(never)]
pub fn wide(v: u128, n: u32) -> u128 {
    v + n as u128
}
fn main() {
    opt32(Some(7), Kind::Three);
    opt32(None, Kind::One);
    opt64(Some(70));
    opt64(None);
    optref(Some(&5));
    optref(None);
    optstr(Some("hello"));
    optstr(None);
    let _ = result(Ok(9), 3);
    let _ = result(Err(8), 3);
    let _ = result2(Ok(9));
    let _ = result2(Err("bad".to_owned()));
    shape(Shape::Circle(1.5), 42);
    shape(Shape::Nothing, 42);
    mixed(Mixed::A(3), 42);
    mixed(Mixed::B(70000), 42);
    mixed(Mixed::C { x: 1, y: 2 }, 42);
    big(
        Big {
            a: 1,
            b: 2,
            name: "big",
            tags: vec![1, 2, 3],
        },
        42,
    );
    rgb(Rgb(1, 2, 3), 42);
    two(Two { a: 1, b: 2, c: 3 }, 42);
    arr([1, 2], [3, 4, 5], 42);
    floats((1.5, 2.5), [3.5, 4.5], 42);
    strings("text".to_owned(), "slice", vec![1, 2, 3], Some(Box::new(6)));
    optopt(Some(Some(true)), Some('x'), 42);
    optopt(Some(None), None, 42);
    optopt(None, None, 42);
    wide(1 << 70, 42);
}
