package main

import "fmt"

var total int

//go:noinline
func take(n int) int {
	total += n
	return total
}

func main() {
	numbers := make(chan int)
	go func() {
		for i := 1; i <= 10; i++ {
			numbers <- i
		}
		close(numbers)
	}()
	for n := range numbers {
		take(n)
	}
	fmt.Println(total)
}
