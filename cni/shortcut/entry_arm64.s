#include "textflag.h"

// Functions of Go expect a goroutine in g, which they compare the stack pointer with. noGoroutine says that there is
// stack enough.
GLOBL ·noGoroutine(SB), NOPTR, $64

// contiv_cni_start is where the process begins. It goes on where a Go program would have begun.
TEXT contiv_cni_start(SB), NOSPLIT|NOFRAME|TOPFRAME, $0
	MOVD	$·noGoroutine(SB), g
	MOVD	RSP, R0
	SUB	$16, RSP
	MOVD	R0, 8(RSP)
	BL	·beforeRuntime(SB)
	ADD	$16, RSP
	JMP	_rt0_arm64_linux(SB)
