@extends('layout')
@section('title', 'Counter')
@section('content')
<p>You were here {{ $count }} times.</p>
@endsection
