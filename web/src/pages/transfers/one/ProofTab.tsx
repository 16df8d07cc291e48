/** What is proved of a transfer, and by whom: receipt, digests, checksums. */

import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { problemOf } from "../../../api/problem";
import { at } from "../../../base";
import { CommandBox, CopyButton } from "../../../ui/Copy";
import { EmptyState } from "../../../ui/EmptyState";
import { formatBytes, formatCount } from "../../../ui/format";
import { IconAudit, IconDownload } from "../../../ui/icons";
import { Loaded } from "../../../ui/Loaded";
import { Panel } from "../../../ui/Panel";
import { Moment } from "../../../ui/Quantity";
import classes from "./ProofTab.module.css";
import { isEnded, type TransferView } from "./useTransfer";

type Receipt = Schemas["Receipt"];

export function ProofTab({ view }: { view: TransferView }) {
  const ended = isEnded(view);
  const query = useQuery({
    queryKey: [...keys.receipt(view.id), view.state, view.attempt],
    queryFn: ({ signal }) =>
      unwrap(
        api.GET("/api/v1/transfers/{id}/receipt", { params: { path: { id: view.id } }, signal }),
      ).catch((error) => {
        if (problemOf(error).status === 404) {
          return null;
        }
        throw error;
      }),
    enabled: ended,
    // The other site signs a moment after the end.
    refetchInterval: ({ state }) =>
      state.data && state.data.signatures.length < 2 ? 3_000 : false,
  });
  return (
    <div className={classes.column}>
      {ended ? (
        <Loaded query={query}>
          {(receipt) =>
            receipt === null ? <NoReceipt view={view} /> : <Shown view={view} receipt={receipt} />
          }
        </Loaded>
      ) : (
        <Panel title="Receipt" flush>
          <EmptyState icon={IconAudit} title="The receipt is made when the transfer ends">
            {view.options.proof.receipt
              ? "Both sites sign it."
              : "None was asked for: a site still keeps one of each transfer between sites."}
          </EmptyState>
        </Panel>
      )}
      <Lists view={view} />
    </div>
  );
}

function NoReceipt({ view }: { view: TransferView }) {
  return (
    <Panel title="Receipt" flush>
      <EmptyState icon={IconAudit} title="There is no receipt">
        {view.options.proof.receipt
          ? "The transfer ended before its source was listed: there is nothing to prove."
          : "None was asked for. Submit it again with a receipt: what is there is only compared."}
      </EmptyState>
    </Panel>
  );
}

const WHAT: Record<string, string> = {
  arrival: "each piece on arrival, before it was written",
  readback: "each file read back from storage",
  again: "each file once more from the target",
};

const ROLES: Record<string, string> = {
  source: "source: it served the data",
  target: "target: it received the data",
};

function Shown({ view, receipt }: { view: TransferView; receipt: Receipt }) {
  const { facts, durable_by, ended, withheld } = receipt.receipt;
  const name = `receipt-${view.id.slice(0, 8)}.json`;
  const lost = Object.entries(withheld ?? {});
  return (
    <Panel
      title="Receipt"
      aside={`signed by ${receipt.signatures.length === 1 ? "one site" : "both sites"}`}
      actions={
        <Download href={at(`/api/v1/transfers/${view.id}/receipt`)} name={name}>
          Download the receipt
        </Download>
      }
    >
      <dl className={classes.facts}>
        <Fact label="Moved">
          {formatCount(facts.files)} of {formatCount(facts.files_found)} files,{" "}
          {formatBytes(facts.bytes)} of {formatBytes(facts.bytes_found)}
          {facts.failed > 0 && `; ${formatCount(facts.failed)} failed`}
          {facts.skipped > 0 && `; ${formatCount(facts.skipped)} stayed as they were`}
        </Fact>
        {facts.verified.map((one) => (
          <Fact key={`${one.what} ${one.digest}`} label="Verified">
            {formatBytes(one.bytes)} by {String(one.digest).toUpperCase()}:{" "}
            {WHAT[one.what] ?? one.what}, until <Moment at={one.until * 1_000} exact />
          </Fact>
        ))}
        {durable_by !== "" && <Fact label="Durable by">{durable_by}</Fact>}
        <Fact label="Ended">
          <Moment at={ended * 1_000} exact />
        </Fact>
        {typeof facts.root_digest === "string" && (
          <Fact label="Root digest">
            <Hex text={facts.root_digest} what="root digest" />
            <span className="dim">
              of {formatCount(facts.root_files)} files, {formatBytes(facts.root_bytes)}
            </span>
          </Fact>
        )}
        {lost.length > 0 && (
          <Fact label="Not kept">
            {lost.map(([what, count]) => `${what}: ${formatCount(count)}`).join(", ")}
          </Fact>
        )}
        {receipt.signatures.map((one) => (
          <Fact key={one.role} label={`Signed by ${one.site}`}>
            {ROLES[one.role as string] ?? one.role}
            <Hex text={one.key} what={`key of ${one.site}`} />
          </Fact>
        ))}
      </dl>
      <p className={classes.check}>
        Anybody can check it, with no daemon and no network. With the certificates of the sites it
        proves who signed:
      </p>
      <CommandBox command={`penstock receipt check ${name} --trust SITE.pem`} />
    </Panel>
  );
}

function Hex({ text, what }: { text: string; what: string }) {
  return (
    <span className={classes.hex}>
      <code>{text}</code>
      <CopyButton text={text} label={`Copy the ${what}`} />
    </span>
  );
}

function Fact({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Download({ href, name, children }: { href: string; name: string; children: ReactNode }) {
  return (
    <a className={classes.download} href={href} download={name}>
      <IconDownload size={16} aria-hidden />
      {children}
    </a>
  );
}

/** Lists of digests and checksums, as far as they were asked for. */
function Lists({ view }: { view: TransferView }) {
  const { digest_list, proof, digest } = view.options;
  const kinds = proof.also_digests as string[];
  const short = view.id.slice(0, 8);
  const base = at(`/api/v1/transfers/${view.id}`);
  const ready = isEnded(view);
  const has = digest_list || kinds.length > 0;
  return (
    <Panel title="Digests of all files">
      {!has && (
        <p className="dim">
          No list was asked for.
          {digest === "blake3" && " Each file was verified by its BLAKE3 all the same."}
        </p>
      )}
      {has && !ready && <p className="dim">The lists are there when the transfer has ended.</p>}
      {has && ready && (
        <ul className={classes.lists}>
          {digest_list && (
            <li>
              <Download href={`${base}/digests`} name={`digests-${short}.b3`}>
                BLAKE3, for b3sum --check
              </Download>
            </li>
          )}
          {kinds.map((kind) => (
            <li key={kind}>
              <Download href={`${base}/checksums/${kind}`} name={`digests-${short}.b3.${kind}`}>
                {kind.toUpperCase()}
              </Download>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}
