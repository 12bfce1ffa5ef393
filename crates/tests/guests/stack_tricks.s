# relive: link=pie,static
# Control flow by push, pop, call and ret in ways that no compiler pairs them, and the red
# zone kept through all of it.
        .text
        .globl  main
main:
        push    %rbx
        push    %rbp
        push    %r12
        mov     $5000, %r12d
again:
        call    1f                      # call-pop for the program counter
1:      pop     %rax
        lea     1b(%rip), %rdx
        cmp     %rax, %rdx
        jne     bad

        lea     2f(%rip), %rax          # push-ret as a jump
        push    %rax
        ret
        ud2
2:      call    3f                      # pop-jmp as a return
        jmp     4f
3:      pop     %rdx
        jmp     *%rdx
4:      call    skip_two                # a callee that moves its return address
        ud2
        call    5f                      # call whose frame is dropped
        ud2
5:      add     $8, %rsp

        mov     %rsp, %rbx              # push rsp pushes the old value, pop rsp takes the new
        push    %rsp
        pop     %rax
        cmp     %rax, %rbx
        jne     bad
        push    %rbx
        pop     %rsp
        cmp     %rbx, %rsp
        jne     bad
        lea     -64(%rsp), %rax
        push    %rax
        mov     %rsp, %rdx
        popq    (%rsp)                  # address is computed after the pop
        lea     8(%rdx), %rdx
        cmp     %rdx, %rsp
        jne     bad

        pushq   $-2                     # immediate forms sign-extend
        pop     %rax
        cmp     $-2, %rax
        jne     bad
        pushw   $0x1234
        popw    %ax
        cmp     $0x1234, %ax
        jne     bad

        movq    $0x1111, -8(%rsp)       # red zone
        movq    $0x2222, -128(%rsp)
        mov     $200, %ecx
6:      dec     %ecx
        jnz     6b
        lea     7f(%rip), %rax
        jmp     *%rax
7:      cmpq    $0x1111, -8(%rsp)
        jne     bad
        cmpq    $0x2222, -128(%rsp)
        jne     bad

        lea     table(%rip), %rax       # memory operands of indirect branches
        mov     $1, %ecx
        movslq  (%rax,%rcx,4), %rdx
        add     %rax, %rdx
        jmp     *%rdx
8:      jmp     bad
9:      lea     10f(%rip), %rax
        push    %rax
        jmp     *(%rsp)
        ud2
10:     pop     %rax
        lea     leaf(%rip), %rax
        push    %rax
        mov     %rsp, %rdx
        call    *(%rsp)                 # target is read before the push
        pop     %rcx
        cmp     %rax, %rcx
        jne     bad
        push    %rax
        call    *8(%rdx,%rbp,0x1)       # checked below: rbp = -8
        pop     %rax
        jmp     11f
11:     mov     $3, %eax                # enter and leave, with nesting level 0
        enter   $32, $0
        lea     -32(%rbp), %rdx
        cmp     %rdx, %rsp
        jne     bad
        leave
        call    recurse
        dec     %r12d
        jz      done
        jmp     again
done:   lea     text(%rip), %rdi
        call    puts@PLT
        xor     %eax, %eax
        jmp     out
bad:    mov     $99, %eax
out:    pop     %r12
        pop     %rbp
        pop     %rbx
        ret

leaf:   mov     $-8, %rbp
        ret
skip_two:
        addq    $2, (%rsp)              # past the ud2
        ret
recurse:
        test    %eax, %eax
        jz      1f
        push    %rax
        dec     %eax
        call    recurse
        pop     %rax
1:      ret
        .section .rodata
text:   .asciz  "ok"
        .balign 4
table:  .long   8b - table, 9b - table
        .section .note.GNU-stack,"",@progbits
