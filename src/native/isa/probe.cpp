namespace kdey { namespace KDEY_ISA { int probe() { return 0; } } }
