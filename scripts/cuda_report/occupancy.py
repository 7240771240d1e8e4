"""How much of a multiprocessor the blocks of a kernel can fill."""

from dataclasses import dataclass

WARP = 32
# A warp's registers come in pieces of 256, warps come by fours, shared memory in pieces of 128
# bytes; of which every block has 1 KB that the driver uses.
REGISTER_PIECE = 256
WARP_PIECE = 4
SHARED_PIECE = 128
RESERVED_SHARED = 1024
# What a launch may ask for without opting in to more.
MOST_SHARED = 48 << 10


@dataclass(frozen=True)
class Multiprocessor:
    threads: int
    blocks: int
    shared: int  # bytes
    registers: int = 65536


# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
MULTIPROCESSORS = {
    75: Multiprocessor(1024, 16, 64 << 10),
    80: Multiprocessor(2048, 32, 164 << 10),
    86: Multiprocessor(1536, 16, 100 << 10),
    89: Multiprocessor(1536, 24, 100 << 10),
    90: Multiprocessor(2048, 32, 228 << 10),
    100: Multiprocessor(2048, 32, 228 << 10),
    120: Multiprocessor(1536, 24, 100 << 10),
}


def occupancy(arch: int, threads: int, registers: int, shared: int) -> float:
    """Return the part of a multiprocessor's threads that can be resident, from 0 to 1.

    Blocks have `threads` threads of `registers` registers, and `shared` bytes of shared memory,
    static and dynamic.
    """
    chip = MULTIPROCESSORS[arch]
    warps = -(-threads // WARP)
    of_warp = -(-registers * WARP // REGISTER_PIECE) * REGISTER_PIECE
    by_registers = chip.registers // of_warp // WARP_PIECE * WARP_PIECE // warps
    of_block = -(-(shared + RESERVED_SHARED) // SHARED_PIECE) * SHARED_PIECE
    by_shared = chip.shared // of_block
    blocks = min(chip.blocks, chip.threads // (warps * WARP), by_registers, by_shared)
    return blocks * warps * WARP / chip.threads
