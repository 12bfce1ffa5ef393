# relive: link=static,static-pie flags="-nostdlib"
# No libc at all: a bare entry point, two system calls, the argument count on the stack.
        .text
        .globl  _start
_start:
        cmpq    $1, (%rsp)              # argc
        jne     bad
        testq   $15, %rsp               # the ABI aligns the entry stack
        jnz     bad
        test    %rdx, %rdx              # static: nothing to register with atexit
        jnz     bad
        lea     text(%rip), %rsi
        mov     $3, %edx
        mov     $1, %edi
        mov     $1, %eax                # write
        mov     $0x10101, %r12
        syscall
        cmp     $3, %rax
        jne     bad
        cmp     $0x10101, %r12          # a system call clobbers rcx and r11 alone
        jne     bad
        xor     %edi, %edi
        jmp     leave
bad:    mov     $99, %edi
leave:  mov     $231, %eax              # exit_group
        syscall
        ud2
        .section .rodata
text:   .ascii  "ok\n"
        .section .note.GNU-stack,"",@progbits
