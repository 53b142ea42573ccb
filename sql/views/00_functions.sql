-- about: Small functions that views and gates share: how a time and a number are said, and what a failure is.
CREATE MACRO stamp(moment) AS strftime(make_timestamp(epoch_us(moment)), '%Y-%m-%dT%H:%M:%S.%gZ');

-- two decimals at most, trailing zeros dropped
CREATE MACRO brief(number) AS
    CASE WHEN number IS NULL THEN '?' ELSE regexp_replace(printf('%.2f', number::DOUBLE), '\.?0+$', '') END;

CREATE MACRO metric(counter) AS regexp_replace(counter, '^(counter:)?(benchmark\.)?', '');

-- a counter of the zero-failure set; classes overlap (one reset is in three of them) and are never added up
CREATE MACRO is_failure(counter) AS
    regexp_matches(
        metric(counter),
        '^(http_4xx|http_5xx|grpc_error|stream_resets|pool_connection_failure|pool_failure_|pool_overflow'
            || '|http_inflight_lost|k6\.http_req_failed|k6\.checks_failed|k6\.dropped_iterations)'
    );

-- a counter of requests that the engine itself never sent
CREATE MACRO is_not_sent(counter) AS counter IN ('benchmark.pool_overflow', 'k6.dropped_iterations');

-- what Envoy counts of connections, TLS and itself, in the output of nighthawk: no outcome of a request
CREATE MACRO is_envoy(counter) AS
    regexp_matches(
        counter,
        '^(upstream_|ssl\.|cluster_manager\.|runtime\.|membership_|default\.|circuit_breakers\.|lb_|http[12]\.|tls\.)'
    );

-- the distribution that is shown as a target's latency; k6 has one over all its requests
CREATE MACRO is_latency(statistic) AS statistic IN ('benchmark_http_client.latency_2xx', 'k6.http_req_duration');

-- PASS, FAIL, SKIP (another rule says why this target cannot be judged); a condition that is unknown stays NULL
CREATE MACRO judge(state, fails) AS
    CASE WHEN state <> 'graded' THEN 'SKIP' WHEN fails THEN 'FAIL' WHEN NOT fails THEN 'PASS' END;

-- an engine for people: its node, and its address where that says more
CREATE MACRO engine_at(node, backend) AS CASE WHEN node = backend THEN node ELSE node || ' (' || backend || ')' END;
