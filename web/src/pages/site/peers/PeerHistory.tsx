/** The last hour of a host: its cards over time, and its processors. */

import { useQuery } from "@tanstack/react-query";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { formatRate } from "../../../ui/format";
import { type CardLine, type Cores, cardsOf, coreWords, lastOf, pathOf } from "./history";
import classes from "./PeerHistory.module.css";

const COLUMNS = "card_in_bits_per_s,card_out_bits_per_s";
/** Points of a line: 30 s each. */
const POINTS = 120;
const LOOK_MS = 15_000;
const BOX = { width: 240, height: 28 };

/** All cards of the page ask together. */
function useHistories() {
  return useQuery({
    queryKey: keys.peerStatistics,
    queryFn: ({ signal }) => {
      const query = { columns: COLUMNS, points: POINTS, format: "json" as const };
      return unwrap(api.GET("/api/v1/statistics", { params: { query }, signal })) as Promise<
        Schemas["SiteStatistics"]
      >;
    },
    refetchInterval: LOOK_MS,
  });
}

export function PeerHistory({ peer }: { peer: string }) {
  const histories = useHistories();
  const history = histories.data?.peers.find((one) => one.series.peer === peer);
  // A host that keeps no figures yet is told of by what else is in its card.
  if (history === undefined || (history.cores.length === 0 && history.series.at.length < 2)) {
    return null;
  }
  const { lines, more } = cardsOf(history.series);
  return (
    <div className={classes.history}>
      {history.series.at.length >= 2 && lines.length > 0 && (
        <div>
          <h3 className={classes.part}>Cards, last hour</h3>
          <ul className={classes.lines}>
            {lines.map((line) => (
              <Card key={line.card} line={line} />
            ))}
          </ul>
          {more > 0 && <p className="dim">{more} more with fewer bytes</p>}
        </div>
      )}
      {history.cores.length > 0 && <Processors cores={history.cores} />}
    </div>
  );
}

function Card({ line }: { line: CardLine }) {
  const { card, most } = line;
  const now = [lastOf(line.in), lastOf(line.out)].map((rate) =>
    rate === null ? "not known" : formatRate(rate),
  );
  const words = `${card}: in ${now[0]}, out ${now[1]}; at most ${formatRate(most)} in the hour`;
  return (
    <li className={classes.line}>
      <span className={classes.name}>{card}</span>
      <svg
        className={classes.chart}
        viewBox={`0 0 ${BOX.width} ${BOX.height}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={words}
      >
        <title>{words}</title>
        <path data-way="in" d={pathOf(line.in, most, BOX)} vectorEffect="non-scaling-stroke" />
        <path data-way="out" d={pathOf(line.out, most, BOX)} vectorEffect="non-scaling-stroke" />
      </svg>
      <span className={classes.rates} aria-hidden>
        <span data-way="in">↓ {now[0]}</span>
        <span data-way="out">↑ {now[1]}</span>
      </span>
    </li>
  );
}

function Processors({ cores }: { cores: Cores }) {
  const words = coreWords(cores);
  return (
    <div>
      <h3 className={classes.part}>Processors, last ten minutes</h3>
      <div className={classes.cores} role="img" aria-label={`Processors: ${words}`}>
        {cores.map(({ core, busy_percent }) => (
          <span
            key={core}
            title={`CPU ${core}: ${Math.round(busy_percent.mean)} %`}
            style={{ opacity: 0.12 + 0.88 * Math.min(1, busy_percent.mean / 100) }}
          />
        ))}
      </div>
      <p className={classes.words} aria-hidden>
        {words}
      </p>
    </div>
  );
}
