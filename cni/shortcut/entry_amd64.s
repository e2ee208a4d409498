#include "textflag.h"

// Functions of Go expect a goroutine in R14, which they compare the stack pointer with, and take it from the thread's
// memory when they are called from here. noGoroutine says that there is stack enough.
DATA ·noGoroutine+64(SB)/8, $·noGoroutine(SB)
GLOBL ·noGoroutine(SB), NOPTR, $72

// contiv_cni_start is where the process begins. It goes on where a Go program would have begun.
TEXT contiv_cni_start(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	MOVQ	$158, AX // arch_prctl
	MOVQ	$0x1002, DI // ARCH_SET_FS
	LEAQ	·noGoroutine+72(SB), SI
	SYSCALL
	MOVQ	SP, AX
	SUBQ	$16, SP
	MOVQ	AX, 0(SP)
	CALL	·beforeRuntime(SB)
	ADDQ	$16, SP
	JMP	_rt0_amd64_linux(SB)
