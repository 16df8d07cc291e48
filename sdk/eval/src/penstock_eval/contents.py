"""What a report has, in its order, and what it cannot have."""

from penstock_eval import appendix, beside, bounds, distances, forecasts, layers, proofs, tables
from penstock_eval.drawing import FigureOf, Request
from penstock_eval.figures import (
    distance,
    forecast,
    movers,
    processors,
    rates,
    setup,
    soak,
    storage,
    traffic,
    work,
)
from penstock_eval.rivals import Rivals
from penstock_eval.soakdir import Soak
from penstock_eval.storagedir import StorageResult
from penstock_eval.tables import TableOf

FIGURES: tuple[FigureOf[Request], ...] = (
    FigureOf("F15", "Transfers beside measured storage", rates.beside_storage),
    FigureOf("F0", "What the pair of sites carries", work.capacity),
    FigureOf("F1", "Set-up", setup.drawing),
    FigureOf("F14", "All data sets", rates.by_dataset),
    FigureOf("F6", "Rate by file size and volume", rates.by_volume),
    FigureOf("F4", "A single file", rates.single_file),
    FigureOf("F5", "A single file, linear", rates.single_file_linear),
    FigureOf("F12", "Storage and transfer, layer by layer", storage.by_layer),
    FigureOf("F21", "Forecast and measured", forecast.against_measured),
    FigureOf("F19", "Where the time goes", work.where_time_goes),
    FigureOf("F9", "The first seconds", traffic.first_seconds),
    FigureOf("F10", "Traffic by card", traffic.cards),
    FigureOf("F11", "Bytes by disk", traffic.disks),
    FigureOf("F16", "Over time", traffic.over_time),
    FigureOf("F2", "Which cores work", processors.core_heat),
    FigureOf("F3", "Use of each core", processors.core_boxes),
    FigureOf("F7", "Use of processors, cumulative", processors.distribution),
    FigureOf("F8", "Use of processors, by mode", processors.boxes),
    FigureOf("F20", "Energy by mode", processors.energy),
    FigureOf("F13", "Files and bytes by size", work.histogram),
    FigureOf("F17", "Lanes and piece size", work.tuning),
)

TABLES: tuple[TableOf[Request], ...] = (
    TableOf("T1", "Results", tables.results),
    TableOf("T2", "Use of processors", tables.use_of_processors),
    TableOf("T3", "Data sets", tables.data_sets),
    TableOf("T4", "Modes and ciphers", tables.by_suite),
    TableOf("T5", "Evenness of cards", tables.evenness),
    TableOf("T6", "Layers and bounds", bounds.table),
    TableOf("T7", "Runs of storage", appendix.storage_runs),
    TableOf("T21", "Layers below the stores", layers.of_run),
    TableOf("T8", "Data sets by class", appendix.classes),
    TableOf("T9", "Counters of cards", appendix.counters),
    TableOf("T10", "Settings and findings", appendix.settings),
    TableOf("T13", "Ends of runs", appendix.tails),
    TableOf("T14", "Flagged and failed runs", appendix.odd_runs),
    TableOf("T16", "Forecasts", forecasts.table),
)

ACROSS_FIGURES: tuple[FigureOf[Request], ...] = (
    FigureOf("F18", "Rate by round-trip time", distance.round_trips),
)
"""Of all sweeps of a report together."""

ACROSS_TABLES: tuple[TableOf[Request], ...] = (
    TableOf("T15", "Rate by round-trip time", distances.by_round_trip),
)

SOAK_FIGURES: tuple[FigureOf[Soak], ...] = (FigureOf("F22", "A soak over time", soak.over_time),)

SOAK_TABLES: tuple[TableOf[Soak], ...] = (
    TableOf("T11", "The page of the soak", proofs.page),
    TableOf("T17", "Faults", proofs.faults),
    TableOf("T18", "Drift", proofs.drifts),
)

MOVER_FIGURES: tuple[FigureOf[Rivals], ...] = (
    FigureOf("F23", "Movers beside each other", movers.by_dataset),
)

MOVER_TABLES: tuple[TableOf[Rivals], ...] = (
    TableOf("T12", "Movers by data set", beside.by_class),
    TableOf("T19", "What each mover does", beside.properties),
)

STORAGE_FIGURES: tuple[FigureOf[StorageResult], ...] = (
    FigureOf("F24", "Storage by the size of files", storage.by_size),
)

STORAGE_TABLES: tuple[TableOf[StorageResult], ...] = (
    TableOf("T20", "Steps of the storage benchmark", appendix.storage_steps),
    TableOf("T21", "Layers below the store", layers.of_result),
)
