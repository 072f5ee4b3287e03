/* sim/textbook/energy.h - energy of GPU time and the carbon of that energy. */
#ifndef SIM_TEXTBOOK_ENERGY_H
#define SIM_TEXTBOOK_ENERGY_H

/* Watt-hours of `gpu_s` GPU-seconds at `power_w` per GPU. Cooling is not counted. */
double textbook_energy_wh(double gpu_s, double power_w);

/* Grams of CO2 equivalent on a grid that emits `grams_per_kwh`. */
double textbook_gco2(double energy_wh, double grams_per_kwh);

#endif
